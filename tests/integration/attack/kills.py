"""kill -9 in every kind of work that can be resumed: nothing is lost, and the end is bit-equal to that of no kill.

python tests/integration/attack/kills.py --training 100 --final 30 --seed 1 --folder NEW

`--training` and `--final` are the kills of each kind of run (`KINDS`): while it saves a checkpoint, and while it saves
the model when training is over. Prints each kill, and a line for each kind with its count and seed.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

HELPERS = Path(__file__).parents[2] / "helpers"
sys.path.insert(0, str(HELPERS))

from warm_python import python_with_package  # noqa: E402

#: Kinds of training, with their number of processes
KINDS = {"plain": 1, "cached": 1, "lora": 1, "quickthoughts": 1, "distill": 1, "two": 2}


def killed(worker, *arguments, kills):
    """The last line of a helper that kills; its lines are printed while they come."""
    path = os.pathsep.join([str(HELPERS), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path, "HF_HUB_OFFLINE": "1"}
    command = [python_with_package(), str(HELPERS / worker), *map(str, arguments)]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, timeout=120 + 20 * kills, env=environment, check=False
    )
    print(done.stdout, flush=True)
    assert done.returncode == 0, done.stdout[-1000:]
    return done.stdout.splitlines()[-1]


def kill_training(folder, kind, kills, seed, moment="checkpoint"):
    """Kills of one kind of run."""
    folder.mkdir(parents=True, exist_ok=True)
    case = "plain" if kind == "two" else kind
    found = killed("kill_worker.py", folder, case, KINDS[kind], kills, seed, moment, kills=kills)
    assert found.startswith(f"{kills} kills in a {moment} save of {case}")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--training", type=int, default=100, help="of each kind, while it saves a checkpoint")
    parser.add_argument("--final", type=int, default=30, help="of each kind, while it saves the model at the end")
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=list(KINDS), help="of training")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, required=True, help="an empty folder for the runs")
    args = parser.parse_args()
    began, found = time.monotonic(), []
    for moment, kills in (("checkpoint", args.training), ("final", args.final)):
        for kind in args.kinds if kills else []:
            if moment == "checkpoint" or KINDS[kind] == 1:
                found.append(kill_training(args.folder / f"{moment}-{kind}", kind, kills, args.seed, moment))
    print("\n".join(found))
    print(f"{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
