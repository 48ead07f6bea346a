"""Evaluate encoders: STS, transfer tasks and metrics of the embedding space, in one report.

    python examples/by_feature/evaluation.py out/demo/tuned --tasks sts,space --data FOLDER_OF_SENTEVAL
    python examples/by_feature/evaluation.py out/demo/tuned --tasks sts --data hub

Several models are compared in one table; `contrastive-st evaluate` does the same.
"""

import argparse
import os
import sys

from contrastive_st import evaluate, run
from contrastive_st.evaluation.tasks import choose


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", help="checkpoint folders or Hub names")
    parser.add_argument("--tasks", default="sts,space", help="names or groups, separated by commas")
    parser.add_argument("--data", default=os.environ.get("CONTRASTIVE_ST_DATA", "hub"), help="a folder, or hub")
    parser.add_argument("--output_dir", help="for report.json and report.md")
    args = parser.parse_args()

    report = evaluate(args.models, choose(args.tasks, 5), args.data, cache=None)
    print(report.table())
    if args.output_dir:
        print("written: " + ", ".join(map(str, report.save(args.output_dir))))


if __name__ == "__main__":
    sys.exit(run(main))
