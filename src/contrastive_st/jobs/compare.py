"""Train each method on the same budget, and lay the metrics beside published ones."""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contrastive_st.errors import InputError
from contrastive_st.jobs.methods import EVERY, SCALES, TASKS, Method, flags_of, job_of
from contrastive_st.terminal import Parser

if TYPE_CHECKING:
    from contrastive_st.evaluation.tasks import Task

logger = logging.getLogger(__name__)
FIGURES = "figures.json"


def main(argv: Sequence[str] | None = None) -> str:
    """Run the comparison; returns the tables as Markdown. A model that is there already is not trained again."""
    args, extra = _parser().parse_known_args(argv)
    output, methods = Path(args.output_dir), chosen(args.only)
    from contrastive_st.evaluation.suite import load
    from contrastive_st.evaluation.tasks import chosen as tasks_named
    from contrastive_st.jobs.comparison import draw, tables, write_csv
    from contrastive_st.jobs.job import say_what_happens

    say_what_happens()
    if args.data:
        load(tasks_named(TASKS, 10), args.data)  # before hours of training
    asked = {
        method.name: [
            *flags_of(method, args.scale, args.data, args.train_file or (), args.encoder, args.teacher), *extra,
        ]
        for method in methods
    }  # fmt: skip
    for name, flags in asked.items():
        if (found := found_in(output / name)) and found["flags"] != flags:
            raise InputError(
                f"{output / name} holds a method trained with other flags; choose another --output_dir, or remove it"
            )
    figures = {method.name: measure(method, output / method.name, asked[method.name], args.data) for method in methods}
    text = tables(methods, figures)
    command = "contrastive-st compare " + " ".join(sys.argv[1:] if argv is None else argv)
    output.joinpath("table.md").write_text(f"{text}\n\nMade by `{command.strip()}`.\n", encoding="utf-8")
    write_csv(output / "table.csv", methods, figures)
    drawn = draw(methods, figures, output / "table.png")
    print(text)
    print(f"tables in {output}/table.md and table.csv" + (f", drawn in {drawn}" if drawn else ""))
    return text


def measure(method: Method, folder: Path, flags: Sequence[str], data: str | None) -> dict[str, Any]:
    """Train and evaluate one method, or read what was found the last time."""
    if before := found_in(folder):
        logger.info(f"{method.label}: measured before, in {folder}")
        return before
    from contrastive_st.evaluation.suite import evaluate
    from contrastive_st.hub.metadata import read_training_metadata
    from contrastive_st.jobs.cli import train

    logger.info(f"{method.label}: training")
    train([job_of(method, flags), *flags, "--output_dir", str(folder), "--overwrite_output_dir", "true"])
    checkpoint = folder / method.checkpoint
    tasks, where = (TASKS, data) if data else (documentation_tasks(), "hub")
    report = evaluate([checkpoint], tasks, where, names=[method.label])
    result = {
        "flags": list(flags),
        "run": read_training_metadata(checkpoint)["run"],
        "figures": [figure.as_row() for figure in report.scores],
    }
    folder.joinpath(FIGURES).write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return result


def found_in(folder: Path) -> dict[str, Any] | None:
    """What was measured of the method in a folder, where it was trained to its end."""
    found = folder / FIGURES
    return json.loads(found.read_text(encoding="utf-8")) if found.is_file() else None


def documentation_tasks() -> list[Task]:
    """What is measured where there is no data: the package of a paragraph of the documentation."""
    from contrastive_st.data import installed_docs, split_pairs
    from contrastive_st.jobs.docs_search import HELDOUT, package_task

    return [package_task(split_pairs(installed_docs(), HELDOUT)[1])]


def chosen(names: Sequence[str] | None) -> list[Method]:
    """Methods by name; all without names."""
    known = {method.name: method for method in EVERY}
    if unknown := [name for name in names or () if name not in known]:
        raise InputError(f"unknown method {', '.join(unknown)}; choose from {', '.join(known)}")
    return [method for name, method in known.items() if not names or name in names]


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="contrastive-st compare",
        description="Compare methods; any flag of transformers.TrainingArguments may follow and holds for every one.",
    )
    parser.add_argument(
        "--scale", choices=SCALES, default="small", help="tiny: a few steps, to see it run; small: 240,000 texts each, "
        "minutes on two cores; full: the settings of the published tables, a GPU",
    )  # fmt: skip
    parser.add_argument("--only", nargs="+", metavar="METHOD", help=", ".join(method.name for method in EVERY))
    parser.add_argument(
        "--data", default=os.environ.get("CONTRASTIVE_ST_DATA"), help="folder with novels.parquet, wikipedia.parquet, "
        "nli/ and SentEval's files; the Python documentation stands in for what is missing",
    )  # fmt: skip
    parser.add_argument("--train_file", nargs="+", help="sentences in order, in place of the novels and Wikipedia")
    parser.add_argument(
        "--encoder", help="checkpoint or name that the BERT methods start from, such as one of examples/run_mlm.py; by "
        "default a small BERT from scratch",
    )  # fmt: skip
    parser.add_argument(
        "--teacher", help="checkpoint or name that the distilled methods learn from; by default out/demo, or TF-IDF"
    )
    parser.add_argument("--output_dir", default="out/compare", help="checkpoints, figures and tables")
    return parser
