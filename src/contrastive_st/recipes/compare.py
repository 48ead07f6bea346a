"""Train the same encoder with each objective, and lay the figures beside published ones."""

from __future__ import annotations

import argparse
import csv
import json
import logging
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from contrastive_st.errors import InputError
from contrastive_st.evaluation.suite import evaluate
from contrastive_st.models import SentenceEncoder
from contrastive_st.recipes import published
from contrastive_st.recipes.compare_plot import draw
from contrastive_st.recipes.quickthoughts import make_trainer
from contrastive_st.recipes.quickthoughts_arguments import parse

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Method:
    """One row of a table: what is trained, and which published row stands beside it."""

    name: str
    label: str
    flags: tuple[str, ...]
    published: dict[str, float] = field(default_factory=dict)


OBJECTIVES = (
    Method("next", "next sentence", ("--targets", "next"), published.OBJECTIVES["next"]),
    Method("counts", "co-occurrence counts", ("--targets", "counts"), published.OBJECTIVES["counts"]),
    Method("tfidf", "TF-IDF", ("--targets", "tfidf"), published.OBJECTIVES["tfidf"]),
    Method("tfidf_bin", "binarized TF-IDF", ("--targets", "tfidf_bin"), published.OBJECTIVES["tfidf_bin"]),
    Method("block", "CURL block of 3", ("--targets", "window", "--context_size", "3", "--loss", "block")),
)
CONTEXTS = tuple(
    Method(f"window_{k}", f"context size {k}", ("--targets", "window", "--context_size", str(k)), published.CONTEXTS[k])
    for k in (1, 2, 3, 4)
)
_COMMON = ("--logging_steps", "50", "--save_strategy", "no", "--eval_strategy", "no", "--report_to", "none")
SCALES: dict[str, tuple[str, ...]] = {
    "tiny": ("--hidden_size", "16", "--embedding_size", "16", "--per_device_train_batch_size", "64", "--max_steps", "5",
             "--vocab_size", "2000", "--learning_rate", "2e-3"),
    "small": ("--hidden_size", "300", "--embedding_size", "200", "--per_device_train_batch_size", "400",
              "--max_steps", "600", "--learning_rate", "2e-3", "--readout", "max", "--idf_sentences", "100000"),
    "full": ("--hidden_size", "1000", "--embedding_size", "300", "--per_device_train_batch_size", "1000",
             "--num_train_epochs", "1", "--learning_rate", "5e-4"),
}  # fmt: skip


def main(argv: Sequence[str] | None = None) -> str:
    """Run the comparison; returns the tables as Markdown. A model that is there already is not trained again."""
    args, extra = _parser().parse_known_args(argv)
    logging.basicConfig(format="%(message)s", stream=sys.stderr)
    logger.setLevel(logging.INFO)
    output, methods = Path(args.output_dir), chosen(args.only)
    files = args.train_file or default_corpus(args.scale)
    given = ("--train_file", *files) if files else ()
    flags = (*SCALES[args.scale], *_COMMON, *given, *extra)
    figures = {method.name: measure(method, output, flags, args.data) for method in methods}
    text = tables(methods, figures)
    command = "examples/compare_objectives.py " + " ".join(sys.argv[1:] if argv is None else argv)
    output.joinpath("table.md").write_text(f"{text}\n\nMade by `{command.strip()}`.\n", encoding="utf-8")
    write_csv(output / "table.csv", methods, figures)
    drawn = draw(methods, figures, output / "table.png")
    print(text)
    print(f"tables in {output}/table.md and table.csv" + (f", drawn in {drawn}" if drawn else ""))
    return text


def measure(method: Method, output: Path, flags: Sequence[str], data: str | None) -> dict[str, Any]:
    """Train and evaluate one method, or read what was found the last time with the same flags."""
    folder = output / method.name
    found, asked = folder / "figures.json", [*flags, *method.flags]
    if found.is_file() and (before := json.loads(found.read_text(encoding="utf-8")))["flags"] == asked:
        logger.info(f"{method.label}: measured before, in {found}")
        return before
    logger.info(f"{method.label}: training")
    args, training = parse([*asked, "--output_dir", str(folder)])
    started = time.perf_counter()
    args.eval_data = data
    trainer = make_trainer(args, training)
    trainer.train()
    seconds = time.perf_counter() - started
    trainer.save_model()
    encoder = SentenceEncoder(trainer.model.eval(), trainer.processing_class)  # type: ignore[union-attr, arg-type]
    tasks, where = (published.TASKS, data) if data else (trainer.evaluator.tasks, "hub")  # type: ignore[union-attr]
    report = evaluate([encoder], tasks, where, names=[method.label])  # type: ignore[arg-type]
    result = {
        "flags": asked,
        "steps": trainer.state.global_step,
        "train_seconds": round(seconds, 1),
        "loss": next((row["loss"] for row in reversed(trainer.state.log_history) if "loss" in row), None),
        "figures": [figure.as_row() for figure in report.figures],
    }
    folder.mkdir(parents=True, exist_ok=True)
    found.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return result


def tables(methods: Sequence[Method], figures: dict[str, Any]) -> str:
    """Both tables as Markdown: measured rows, and the published row below each that has one."""
    parts = []
    for title, rows, columns in (
        ("Objectives", [m for m in methods if m in OBJECTIVES], published.OBJECTIVE_COLUMNS),
        ("Context size", [m for m in methods if m in CONTEXTS], published.CONTEXT_COLUMNS),
    ):
        if not rows:
            continue
        columns = [*columns, *other_columns(rows, figures, columns)]
        lines = [f"| {title} | {' | '.join(columns)} |", "|---|" + "---:|" * len(columns)]
        for method in rows:
            own = row_of(figures[method.name], columns)
            lines.append(f"| {method.label} | {' | '.join(own)} |")
            if method.published:
                theirs = [f"*{method.published[name]:.2f}*" if name in method.published else "" for name in columns]
                lines.append(f"| *{method.label}, published* | {' | '.join(theirs)} |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def value_of(result: dict[str, Any], column: str) -> float | None:
    """The figure of one column, x100; None where it was not run."""
    wanted = published.FIGURE_OF.get(column, (column, None, None))
    for figure in result["figures"]:
        if figure["split"] == "dev":
            continue
        task, metric, aggregation = figure["task"], figure["metric"], figure["aggregation"]
        if (task, metric, aggregation) == wanted or (
            task == wanted[0] and wanted[1] in (None, metric) and not wanted[2]
        ):
            return None if figure["value"] is None else 100 * figure["value"]
    return None


def row_of(result: dict[str, Any], columns: Sequence[str]) -> list[str]:
    """The cells of one measured row."""
    values = [value_of(result, column) for column in columns]
    return ["not run" if value is None else f"{value:.2f}" for value in values]


def other_columns(methods: Sequence[Method], figures: dict[str, Any], columns: Sequence[str]) -> list[str]:
    """Tasks that were run and are in no published table."""
    known = {published.FIGURE_OF.get(column, (column,))[0] for column in columns}
    run = [f["task"] for m in methods for f in figures[m.name]["figures"] if f["value"] is not None]
    return [task for task in dict.fromkeys(run) if task not in known and task not in ("STSB", "SICKR")]


def write_csv(path: Path, methods: Sequence[Method], figures: dict[str, Any]) -> None:
    """One line a method, task and source (measured or published)."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["method", "source", "task", "split", "metric", "aggregation", "value"])
        for method in methods:
            for figure in figures[method.name]["figures"]:
                row = [figure[name] for name in ("task", "split", "metric", "aggregation", "value")]
                writer.writerow([method.name, "measured", *row])
            for column, value in method.published.items():
                writer.writerow([method.name, "published", column, "", "", "", value / 100])


def chosen(names: Sequence[str] | None) -> list[Method]:
    """Methods by name; all without names."""
    known = {method.name: method for method in (*OBJECTIVES, *CONTEXTS)}
    if unknown := [name for name in names or () if name not in known]:
        raise InputError(f"unknown method {', '.join(unknown)}; choose from {', '.join(known)}")
    return [method for name, method in known.items() if not names or name in names]


def default_corpus(scale: str) -> list[str]:
    """The novels and Wikipedia where they are at hand; else nothing, which is the documentation corpus."""
    root = os.environ.get("CONTRASTIVE_ST_DATA")
    files = [Path(root, name) for name in ("novels.parquet", "wikipedia.parquet")] if root and scale != "tiny" else []
    return [str(file) for file in files if file.is_file()]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Compare objectives; any flag of run_quickthoughts.py may follow and holds for every method.",
        allow_abbrev=False,
    )
    parser.add_argument("--scale", choices=list(SCALES), default="small", help="tiny: seconds a method; small: "
                        "minutes, two cores; full: the settings of the published tables, a GPU")  # fmt: skip
    parser.add_argument("--only", nargs="+", metavar="METHOD", help="some of the methods")
    parser.add_argument("--train_file", nargs="+", help="sentences in order; by default the novels and Wikipedia of "
                        "CONTRASTIVE_ST_DATA, else the Python documentation")  # fmt: skip
    parser.add_argument("--data", default=os.environ.get("CONTRASTIVE_ST_DATA"), help="folder of SentEval's files")
    parser.add_argument("--output_dir", default="out/compare", help="checkpoints, figures and tables")
    return parser
