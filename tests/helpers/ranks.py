"""`together`: a function in several processes that train together, each a fork of one that has imported all.

A new process has no state of earlier runs (accelerate keeps some), and costs a fraction of a second.
"""

import os
import pickle
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

import torch
from ports import free_port
from warm_python import python_with_package

SECONDS = 600  # a run that takes longer hangs


class RunFailed(AssertionError):
    """A run ended in an error, or did not end."""


def together(count, function, *args):
    """What `function(*args)` returns in each of `count` processes of one group.

    Args:
        count: the number of processes; one has no process group.
        function: of a module; returns what can be pickled.
        args: what it is called with.

    Raises:
        RunFailed: with the last lines of the traceback of the first process that failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "job").write_bytes(pickle.dumps(sys.path) + pickle.dumps((function, args)))
        command = [python_with_package(), __file__, folder, str(count), str(free_port())]
        running = [subprocess.Popen([*command, str(rank)]) for rank in range(count)]
        outcomes, until = {}, time.monotonic() + SECONDS
        try:
            while len(outcomes) < count:
                for rank, process in enumerate(running):
                    ended, path = process.poll() is not None, Path(folder, str(rank))
                    if path.exists():
                        kind, outcomes[rank] = pickle.loads(path.read_bytes())
                        path.unlink()
                        if kind == "failed":  # the others may wait for it
                            raise RunFailed(outcomes[rank])
                    elif ended and rank not in outcomes:
                        raise RunFailed(f"process {rank} of {count} ended without an outcome")
                if time.monotonic() > until:
                    raise RunFailed(f"{len(outcomes)} of {count} processes have ended in {SECONDS} s")
                time.sleep(0.01)
            return [outcomes[rank] for rank in range(count)]
        finally:
            for process in running:
                process.kill()
                process.wait()


def main(folder, count, port, rank):
    os.environ.update(ACCELERATE_USE_CPU="true", HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
    if count != "1":
        os.environ.update(RANK=rank, LOCAL_RANK=rank, WORLD_SIZE=count, LOCAL_WORLD_SIZE=count)
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    torch.set_num_threads(1)
    try:
        with open(Path(folder, "job"), "rb") as job:
            sys.path[:] = pickle.load(job)
            function, args = pickle.load(job)
        outcome = ("done", function(*args))
    except BaseException:
        outcome = ("failed", "".join(traceback.format_exc().splitlines(keepends=True)[-12:]))
    written = Path(folder, f"{rank}.written")
    written.write_bytes(pickle.dumps(outcome))
    written.rename(Path(folder, rank))
    time.sleep(SECONDS)  # a process that ends while the others communicate aborts them; all are killed together


def relative_error(ours, reference):
    """Norm of the difference over the norm, of all tensors as one vector."""
    assert ours.keys() == reference.keys()
    a, b = (torch.cat([tensors[name].flatten() for name in sorted(tensors)]) for tensors in (ours, reference))
    return ((a - b).norm() / b.norm()).item()


if __name__ == "__main__":
    main(*sys.argv[1:])
