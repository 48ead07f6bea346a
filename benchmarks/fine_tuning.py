"""Fine-tuning on pairs with validation and early stopping: the two scripts of docs/migrating.md, on the same file.

    python benchmarks/fine_tuning.py nli/triplets.csv all-MiniLM-L6-v2 --rows 2000

The scripts are read from the page, with another model, file, folder, batch and number of steps, and with more
patience, so that both take all steps. Each runs in a separate process, and they take turns; the seconds are
those of the script without imports, with ten evaluations and checkpoints or fewer. Other rows of the file are kept from
both; afterwards each saved folder, opened by sentence-transformers, has to find the positive of each of these anchors
among all their positives. The accuracy is the share that it finds.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "migrating.md"
OURS, THEIRS = "ours", "sentence-transformers"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", help="any table `contrastive-st train` reads; the first two columns of text are used")
    parser.add_argument("model", help="folder or Hub name")
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--test_rows", type=int, default=200)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--worker", nargs=2, metavar=("SYSTEM", "FOLDER"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        work(args, *args.worker)
        return
    found: dict[str, list[dict]] = {name: [] for name in (OURS, THEIRS)}
    with tempfile.TemporaryDirectory() as temporary:
        write_rows(args, Path(temporary))
        print(f"before: accuracy {accuracy(args.model, Path(temporary)):.3f}")
        for turn in range(args.rounds):
            for name, runs in found.items():
                folder = Path(temporary, f"{name.replace(' ', '-')}-{turn}")
                folder.mkdir()
                worker = [sys.executable, __file__, *sys.argv[1:], "--worker", name, str(folder)]
                done = subprocess.run(worker, capture_output=True, text=True)
                if done.returncode:
                    sys.exit(done.stderr)
                run = {
                    **json.loads((folder / "run.json").read_text()),
                    "accuracy": accuracy(folder / "best", folder.parent),
                }
                print(
                    f"{name}: {run['seconds']:.1f} s, {run['steps']} steps, accuracy {run['accuracy']:.3f}", flush=True
                )
                runs.append(run)
    ours = statistics.median(run["seconds"] for run in found[OURS])
    for name, runs in found.items():
        print(f"{name}: {statistics.median(run['seconds'] for run in runs) / ours:.2f} times our seconds")


def write_rows(args: argparse.Namespace, folder: Path) -> None:
    """Write `pairs.csv` for the scripts and `test.csv`, of other anchors, to measure them."""
    from contrastive_st.data import read_examples, split_rows

    rows, _ = read_examples(args.file)
    rows = rows.select_columns(rows.column_names[:2]).take(min(args.rows + args.test_rows, len(rows)))
    for name, part in zip(("pairs", "test"), split_rows(rows, args.test_rows / len(rows)), strict=True):
        part.rename_columns(dict(zip(rows.column_names, ("anchor", "positive"), strict=True))).to_csv(
            folder / f"{name}.csv"
        )


def accuracy(model: str | Path, folder: Path) -> float:
    """The share of anchors of `test.csv` whose own positive, or an equal one, is nearest among all positives."""
    from datasets import load_dataset
    from sentence_transformers import SentenceTransformer

    rows = load_dataset("csv", data_files=str(folder / "test.csv"), split="train")
    positives = rows["positive"][:]
    opened = SentenceTransformer(str(model))
    scores = opened.similarity(opened.encode(rows["anchor"][:]), opened.encode(positives))
    nearest = scores.argmax(1).tolist()
    return statistics.fmean(positives[j] == own for j, own in zip(nearest, positives, strict=True))


def work(args: argparse.Namespace, name: str, folder: str) -> None:
    """Run one script, and write its seconds and steps to `run.json`."""
    script = {"theirs": "", "ours": ""}
    for body in re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S):
        script |= {key: body for key in script if f'"out/{key}"' in body}
    text = script["ours" if name == OURS else "theirs"]
    changes = {
        "model_cards/minilm-1-layer": args.model,
        "examples/data/pairs.csv": str(Path(folder).parent / "pairs.csv"),
        "num_train_epochs=3": f"max_steps={args.steps}",
        "early_stopping_patience=3": "early_stopping_patience=10",  # both take all steps
        "EarlyStoppingCallback(3)": "EarlyStoppingCallback(10)",
        "per_device_train_batch_size=16": f'per_device_train_batch_size={args.batch}, report_to="none"',
    }
    changes |= {f"out/{key}": folder for key in script}
    for old, new in changes.items():
        text = text.replace(old, new)
    imports, body = text.split("\n\n", 1)
    names: dict = {}
    exec(imports, names)
    start = time.perf_counter()
    exec(body, names)
    seconds = time.perf_counter() - start
    run = {"seconds": seconds, "steps": names["trainer"].state.global_step}
    Path(folder, "run.json").write_text(json.dumps(run), encoding="utf-8")


if __name__ == "__main__":
    main()
