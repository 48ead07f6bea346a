"""Train each method on the same budget, and lay the figures beside published ones."""

from __future__ import annotations

import argparse
import csv
import importlib
import json
import logging
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from contrastive_st.data import installed_docs, split_pairs
from contrastive_st.errors import InputError
from contrastive_st.evaluation.suite import evaluate, load
from contrastive_st.evaluation.tasks import Task
from contrastive_st.evaluation.tasks import chosen as tasks_named
from contrastive_st.hub.metadata import RECIPE
from contrastive_st.jobs.docs_search import HELDOUT, package_task
from contrastive_st.jobs.job import say_what_happens

# --- The tables that `compare` sets beside what it measures, and which of our figures stands in which column.

OBJECTIVE_COLUMNS = [
    "MR", "SUBJ", "CR", "MPQA", "STS12", "STS13", "STS14", "STS15", "STS16", "STSb", "SICKr",
]  # fmt: skip
CONTEXT_COLUMNS = ["MR", "SUBJ", "CR", "MPQA"]
SYSTEM_COLUMNS = ["STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "MR", "CR", "SST2", "TREC", "MRPC"]
TASKS = "MR,SUBJ,CR,MPQA,STS12,STS13,STS14,STS15,STS16,STSB-supervised,SICKR-supervised,STSB,SST2,TREC,MRPC"
#: task, metric and aggregation of the figure in each column that is not the task's own name
FIGURE_OF: dict[str, tuple[str, str | None, str | None]] = {
    **{f"STS{year}": (f"STS{year}", "pearson", "mean") for year in range(12, 17)},
    "STS-B": ("STSB", "spearman", "all"),
    "STSb": ("STSB-supervised", "pearson", "all"),
    "SICKr": ("SICKR-supervised", "pearson", "all"),
}

_OBJECTIVES = {
    "next": (68.18, 88.45, 74.76, 79.95, 49.49, 35.85, 49.80, 55.05, 55.22, 72.11, 81.32),
    "counts": (64.02, 84.42, 70.44, 76.16, 26.89, 8.63, 17.28, 28.64, 19.97, 64.61, 75.48),
    "tfidf": (66.93, 85.89, 72.56, 75.52, 48.85, 41.50, 50.57, 59.95, 51.09, 68.53, 78.77),
    "tfidf_bin": (67.88, 86.85, 75.76, 78.91, 53.95, 49.40, 59.37, 67.16, 60.62, 65.08, 80.49),
}
OBJECTIVES = {name: dict(zip(OBJECTIVE_COLUMNS, row, strict=True)) for name, row in _OBJECTIVES.items()}

_CONTEXTS = {
    1: (76.71, 91.74, 83.95, 88.61),
    2: (77.11, 91.72, 83.84, 88.50),
    3: (76.54, 92.18, 83.34, 88.45),
    4: (76.46, 92.16, 82.76, 87.83),
}
CONTEXTS = {size: dict(zip(CONTEXT_COLUMNS, row, strict=True)) for size, row in _CONTEXTS.items()}


# --- The methods that `compare` trains: the job of each, its flags and its data, and one budget for all.

TEXTS = 240_000  # texts that a method encodes in training at the scale `small`; a pair is two
CORPUS = ("novels.parquet", "wikipedia.parquet")
NLI, TRIPLETS = ("nli/pairs.tsv",), ("nli/triplets.csv",)


@dataclass(frozen=True)
class Method:
    """One row of a table: what is trained, and which published row stands beside it.

    Attributes:
        name: of its folder.
        label: in the tables.
        flags: of its job, beside those of the scale.
        published: published figures, by column.
        job: module of `contrastive_st.jobs` whose `main` trains it.
        batch: rows a step, at the scale `small`.
        texts: of a row.
        files: flags of the job that take data, each with its files below the data folder.
        starts_from_encoder: it starts from `--encoder`, where that is given.
        checkpoint: where its job puts the encoder, below the folder of the method.
    """

    name: str
    label: str
    flags: tuple[str, ...] = ()
    published: dict[str, float] = field(default_factory=dict)
    job: str = "quickthoughts"
    batch: int = 400
    texts: float = 1.0
    files: dict[str, tuple[str, ...]] = field(default_factory=lambda: {"--train_file": CORPUS})
    starts_from_encoder: bool = False
    checkpoint: str = "."


OBJECTIVE_METHODS = (
    Method("next", "next sentence", ("--targets", "next"), OBJECTIVES["next"]),
    Method("counts", "co-occurrence counts", ("--targets", "counts"), OBJECTIVES["counts"]),
    Method("tfidf", "TF-IDF", ("--targets", "tfidf"), OBJECTIVES["tfidf"]),
    Method("tfidf_bin", "binarized TF-IDF", ("--targets", "tfidf_bin"), OBJECTIVES["tfidf_bin"]),
    Method("block", "CURL block of 3", ("--targets", "window", "--context_size", "3", "--loss", "block")),
)
CONTEXT_METHODS = tuple(
    Method(f"window_{k}", f"context size {k}", ("--targets", "window", "--context_size", str(k)), CONTEXTS[k])
    for k in (1, 2, 3, 4)
)


def _simcse(name: str, label: str, flags: str, texts: int, batch: int, files: tuple[str, ...]) -> Method:
    return Method(
        name, label, ("--pooling", "mean", *flags.split()), job="simcse", batch=batch, texts=texts,
        files={"--train_file": files}, starts_from_encoder=True,
    )  # fmt: skip


def _sbert(objective: str, flag: str, texts: int, files: tuple[str, ...]) -> Method:
    return Method(
        f"sbert_{objective}", f"Sentence-BERT, {objective}",
        ("--objectives", objective, "--poolings", "mean", "--learning_rate", "2e-4"), job="sbert", batch=64,
        texts=texts, files={flag: files}, starts_from_encoder=True, checkpoint=f"{objective}-mean",
    )  # fmt: skip


def _distilled(order: str) -> Method:
    return Method(
        f"distill_{order}", f"distilled from the teacher, corpus {order}", ("--orders", order), job="distill",
        batch=128, files={"--train_file": CORPUS[1:]}, checkpoint=order,
    )  # fmt: skip


def _universal(encoder: str, *flags: str) -> Method:
    return Method(
        f"use_{encoder}", f"Universal Sentence Encoder, {encoder}", ("--encoder", encoder, *flags), job="universal",
        batch=256, texts=5 / 3, files={"--corpus_file": CORPUS[1:], "--nli_file": NLI},
    )  # fmt: skip


SYSTEMS = (
    _simcse("start", "the BERT that the next seven start from", "--max_steps 1 --learning_rate 0", 2, 64, CORPUS[1:]),
    _simcse("simcse", "SimCSE, unsupervised", "--learning_rate 3e-5", 2, 64, CORPUS[1:]),
    _simcse(
        "cutoff", "Cutoff, span, with consistency",
        "--learning_rate 3e-5 --cutoff span --cutoff_ratio 0.1 --js_weight 1", 2, 64, CORPUS[1:],
    ),
    _simcse("simcse_nli", "SimCSE, supervised", "--learning_rate 5e-4", 3, 128, TRIPLETS),
    _sbert("classification", "--nli_file", 2, NLI),
    _sbert("regression", "--sts_file", 2, ("senteval/STS/STSBenchmark/sts-train.csv",)),
    _sbert("triplet", "--triplet_file", 3, TRIPLETS),
    Method(
        "cert", "CERT, of entailed pairs", ("--columns", "0", "1", "--task_seeds", "0", "--learning_rate", "1e-4"),
        job="cert", batch=128, texts=2, files={"--pairs_file": TRIPLETS}, starts_from_encoder=True,
        checkpoint="contrastive",
    ),
    _distilled("shuffled"),
    _distilled("ordered"),
    Method(
        "infersent", "InferSent", ("--optim", "adamw_torch", "--learning_rate", "1e-3", "--eval_strategy", "no"),
        job="infersent", batch=64, texts=2, files={"--train_file": NLI},
    ),
    _universal("dan"),
    _universal("transformer", "--max_length", "32", "--bf16", "true"),
    Method(
        "skipthoughts", "Skip-Thoughts", ("--models", "skipthoughts"), job="skipthoughts", checkpoint="skipthoughts",
    ),
)  # fmt: skip
EVERY = (*OBJECTIVE_METHODS, *CONTEXT_METHODS, *SYSTEMS)

_TINY = "--hidden_size 16 --per_device_train_batch_size 64 --max_steps 5 --vocab_size 2000 --learning_rate 2e-3"
_SMALL = {
    "quickthoughts": "--hidden_size 300 --embedding_size 200 --learning_rate 2e-3 --readout max --idf_sentences 100000",
    "skipthoughts": "--learning_rate 2e-3",  # its own width of 240: a step at 600 takes five times as long
    "infersent": "--hidden_size 300 --embedding_size 200",
    "distill": "--hidden_size 256 --num_layers 3 --max_length 32 --max_train_samples 40000",
    "sbert": "--max_length 32",
    "cert": "--max_length 32",
}
_FULL = {"quickthoughts": "--hidden_size 1000 --embedding_size 300 --per_device_train_batch_size 1000 "
         "--num_train_epochs 1 --learning_rate 5e-4"}  # fmt: skip
SCALES = ("tiny", "small", "full")
_COMMON = "--logging_steps 50 --save_strategy no --report_to none"


def flags_of(
    method: Method, scale: str, data: str | None, corpus: Sequence[str] = (), encoder: str | None = None,
    teacher: str | None = None,
) -> list[str]:  # fmt: skip
    """The flags of a method's job.

    Args:
        method: the method.
        scale: `tiny`, `small` (its steps encode `TEXTS` texts) or `full` (the jobs' own epochs).
        data: folder of the files; what is not there the jobs replace by the documentation of the installed packages.
        corpus: files that stand in for the novels and Wikipedia.
        encoder: checkpoint or name that the BERT methods start from.
        teacher: checkpoint or name that the distilled methods learn from.

    Example:
        >>> flags_of(OBJECTIVE_METHODS[0], "small", None)[-4:]
        ['--max_steps', '600', '--targets', 'next']
    """
    flags = _COMMON.split()
    if scale == "tiny":
        flags += _TINY.split()
    elif scale == "small":
        steps = round(TEXTS / (method.batch * method.texts))
        flags += _SMALL.get(method.job, "").split()
        flags += ["--per_device_train_batch_size", str(method.batch), "--max_steps", str(steps)]
    else:
        flags += _FULL.get(method.job, "").split()
    for flag, names in method.files.items():
        own = corpus and set(names) <= set(CORPUS)
        given = list(corpus[: len(names)]) if own else _found(names, data)
        if given:
            flags += [flag, *given]
    if encoder and method.starts_from_encoder:
        flags += ["--model_name_or_path", encoder]
    if teacher and method.job == "distill":
        flags += ["--teacher", teacher]
    return [*flags, *method.flags]


def _found(names: Sequence[str], data: str | None) -> list[str]:
    return [str(Path(data, name)) for name in names if Path(data, name).is_file()] if data else []


# --- What `compare` found, as Markdown tables and as one CSV file.

MISSING = "not run"


def tables(methods: Sequence[Method], figures: dict[str, Any]) -> str:
    """Measured rows, the published row below each that has one; and every method in one table, with its cost."""
    parts = []
    for title, rows, columns in (
        ("Objectives", [m for m in methods if m in OBJECTIVE_METHODS], OBJECTIVE_COLUMNS),
        ("Context size", [m for m in methods if m in CONTEXT_METHODS], CONTEXT_COLUMNS),
    ):
        if rows:
            columns = [*columns, *other_columns(rows, figures, columns)]
            parts.append(_table(title, rows, figures, columns, with_published=True))
    known = [name for name in SYSTEM_COLUMNS if any(value_of(figures[m.name], name) for m in methods)]
    columns = known or other_columns(methods, figures, [])
    parts.append(_table("Method", methods, figures, columns))
    return "\n\n".join(parts)


def _table(
    title: str, methods: Sequence[Method], figures: dict[str, Any], columns: Sequence[str], with_published: bool = False
) -> str:
    cost = [] if with_published else ["texts", "seconds"]
    lines = [f"| {title} | {' | '.join([*columns, *cost])} |", "|---|" + "---:|" * (len(columns) + len(cost))]
    for method in methods:
        found = figures[method.name]
        cells = row_of(found, columns)
        if cost:
            cells += [f"{found['run'].get('texts_encoded', 0):,}", f"{found['run'].get('seconds', 0):.0f}"]
        lines.append(f"| {method.label} | {' | '.join(cells)} |")
        if with_published and method.published:
            theirs = [f"*{method.published[name]:.2f}*" if name in method.published else "" for name in columns]
            lines.append(f"| *{method.label}, published* | {' | '.join(theirs)} |")
    return "\n".join(lines)


def value_of(result: dict[str, Any], column: str) -> float | None:
    """The figure of one column, x100; None where it was not run."""
    wanted = FIGURE_OF.get(column, (column, None, None))
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
    return [MISSING if value is None else f"{value:.2f}" for value in values]


def other_columns(methods: Sequence[Method], figures: dict[str, Any], columns: Sequence[str]) -> list[str]:
    """Tasks that were run and are in no published table."""
    known = {FIGURE_OF.get(column, (column,))[0] for column in columns}
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


# --- The comparison as a picture: classification and STS, measured and published, a pair of bars a method.

logger = logging.getLogger(__name__)


def draw(methods: Sequence[Method], figures: dict[str, Any], path: Path) -> Path | None:
    """Write a PNG with one panel for classification and one for STS: means over the tasks that were run.

    A published bar is the mean over the same tasks. None where matplotlib is missing or nothing was run.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        logger.warning("no picture: matplotlib is not installed (pip install contrastive-st[plots])")
        return None

    panels = {"classification accuracy": ("MR", "SUBJ", "CR", "MPQA"), "STS, Pearson x100": tuple(
        f"STS{year}" for year in range(12, 17))}  # fmt: skip
    run = {
        title: [name for name in names if all(value_of(figures[m.name], name) is not None for m in methods)]
        for title, names in panels.items()
    }
    run = {title: names for title, names in run.items() if names}
    if not run:
        return None
    figure = Figure(figsize=(5 * len(run) + 1.5, 0.45 * len(methods) + 1.4), dpi=130, layout="constrained")
    FigureCanvasAgg(figure)
    for axis, (title, names) in zip(np.atleast_1d(figure.subplots(1, len(run), sharey=True)), run.items(), strict=True):
        ours = [float(np.mean([value_of(figures[m.name], name) for name in names])) for m in methods]
        places = np.arange(len(methods))[::-1]
        bars = axis.barh(places + 0.2, ours, 0.38, color="tab:blue", label="measured here")
        axis.bar_label(bars, fmt="%.1f", padding=2, fontsize=8)
        theirs = [(p, m) for p, m in zip(places, methods, strict=True) if all(name in m.published for name in names)]
        if theirs:
            means = [float(np.mean([m.published[name] for name in names])) for _, m in theirs]
            bars = axis.barh([p - 0.2 for p, _ in theirs], means, 0.38, color="tab:gray", label="published")
            axis.bar_label(bars, fmt="%.1f", padding=2, fontsize=8)
        axis.set(title=f"{title} ({', '.join(names)})", xlim=(0, 100))
        axis.set_yticks(places, [m.label for m in methods])
        axis.spines[["top", "right"]].set_visible(False)
    axis.legend(loc="lower right", frameon=False)
    figure.savefig(path)
    return path


FIGURES = "figures.json"


def main(argv: Sequence[str] | None = None) -> str:
    """Run the comparison; returns the tables as Markdown. A model that is there already is not trained again."""
    args, extra = _parser().parse_known_args(argv)
    say_what_happens()
    output, methods = Path(args.output_dir), chosen(args.only)
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
    logger.info(f"{method.label}: training")
    job = importlib.import_module(f"contrastive_st.jobs.{method.job}")
    job.main([*flags, "--output_dir", str(folder), "--overwrite_output_dir", "true"])
    checkpoint = folder / method.checkpoint
    tasks, where = (TASKS, data) if data else (documentation_tasks(), "hub")
    report = evaluate([checkpoint], tasks, where, names=[method.label])
    result = {
        "flags": list(flags),
        "run": json.loads(checkpoint.joinpath(RECIPE).read_text(encoding="utf-8"))["run"],
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
    return [package_task(split_pairs(installed_docs(), HELDOUT)[1])]


def chosen(names: Sequence[str] | None) -> list[Method]:
    """Methods by name; all without names."""
    known = {method.name: method for method in EVERY}
    if unknown := [name for name in names or () if name not in known]:
        raise InputError(f"unknown method {', '.join(unknown)}; choose from {', '.join(known)}")
    return [method for name, method in known.items() if not names or name in names]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Compare methods; any flag of transformers.TrainingArguments may follow and holds for every one.",
        allow_abbrev=False,
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
