"""`contrastive-st train` and `distill`."""

from __future__ import annotations

import argparse
import ast
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from contrastive_st.commands import run
from contrastive_st.errors import InputError, suggestion

_PACKAGE = Path(__file__).parents[1]
TRAIN_HELP = "train an encoder: contrastive-st train [SCRIPT] --train_file FILE ..."


def script_files() -> dict[str, Path]:
    """The training scripts by name: `examples/run_simcse.py` is `simcse`, and `examples/train.py` is the empty name.

    They are in `examples/` of a clone, and beside this package in an installation.

    Example:
        >>> script_files()["simcse"].name
        'run_simcse.py'
    """
    folder = next(folder for folder in (_PACKAGE / "examples", _PACKAGE.parents[1] / "examples") if folder.is_dir())
    found = {path.stem.removeprefix("run_"): path for path in sorted(folder.glob("run_*.py"))}
    return {"": folder / "train.py", **found}


def train(argv: Sequence[str]) -> int:
    """Run the training script that the first word names; without one, `train.py`, or `run_mixture.py` for a mixture.

    Returns the exit code.
    """
    try:
        return run(lambda: _run_script(argv))
    except SystemExit as ended:  # of the script, which has told its errors itself
        return int(ended.code or 0)


def _run_script(argv: Sequence[str]) -> None:
    if not argv or argv[0] in ("-h", "--help"):
        print(_train_help())
        return
    named, found = not argv[0].startswith("-"), script_files()
    name = argv[0].replace("-", "_") if named else _suitable_script(argv)
    if name not in found:
        raise InputError(f"no training script {argv[0]}; {suggestion(argv[0], filter(None, found))}")
    sys.argv = [str(found[name]), *argv[named:]]
    sys.path.insert(0, str(found[name].parent))  # as `python` does, for what a script imports beside it
    runpy.run_path(str(found[name]), run_name="__main__")


def _suitable_script(argv: Sequence[str]) -> str:
    """The script for options without a name: for a mixture, for text in documents, or else for a table."""
    given: dict[str, list[str]] = {}
    for word in argv:
        flag, _, value = word.partition("=")
        if flag.startswith("--"):
            given["--" + flag[2:].replace("-", "_")] = [value] if value else []
        elif given:
            given[list(given)[-1]].append(word)
    if "--mixture" in given:
        return "mixture"
    from contrastive_st.data import in_documents

    files = given.get("--train_file", [])
    if not files or "--columns" in given or not all(map(in_documents, files)):
        return ""
    return "neighbors" if "--model_name_or_path" in given else "static"


def _train_help() -> str:
    lines = ["usage: contrastive-st train [SCRIPT] [options]", "", "scripts:"]
    for name, path in script_files().items():
        words = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        lines.append(f"  {name or '(none)':14} {words.splitlines()[0]}")
    lines += [
        "",
        "Without SCRIPT, the columns of --train_file say what is trained, and --mixture FILE.yaml trains on several",
        "data sets. Text in documents (a .txt with blank lines between, or columns text and doc) trains neighbors,",
        "and without --model_name_or_path static. contrastive-st train SCRIPT --help, or --train_file FILE --help,",
        "shows the options.",
    ]
    return "\n".join(lines)


def add_commands(commands: Any) -> None:
    """Add the commands to the parser of `contrastive-st`."""
    commands.add_parser("train", help=TRAIN_HELP)  # each script parses its own options
    _add_distill(commands)


# --- distill: a small encoder that copies a teacher.

#: Defaults of the training of static students, and those that differ for layer students
STATIC: dict[str, Any] = {
    "batch_size": 512, "pair_batch_size": 512, "learning_rate": 1e-3, "steps": None, "pair_weight": 0.1,
    "temperature": 0.05, "seed": 0, "minutes": 0.0,
}  # fmt: skip
LAYERS: dict[str, Any] = {
    **STATIC, "batch_size": 128, "pair_batch_size": 64, "learning_rate": 5e-4, "steps": 0, "pair_weight": 0.05,
}  # fmt: skip
_MEANING = {
    "batch_size": "texts per step", "pair_batch_size": "pairs or triplets per step", "learning_rate": "rate of AdamW",
    "steps": "steps; 0 for one pass over the texts", "pair_weight": "weight of InfoNCE on pairs; the distance has 1",
    "temperature": "temperature of InfoNCE", "seed": "seed of the order", "minutes": "time limit; 0: none",
}  # fmt: skip


def _add_distill(commands: Any) -> None:
    parser = commands.add_parser(
        "distill", help="train a small encoder that copies a teacher: static, or some of its layers"
    )
    add = parser.add_argument
    add("teacher", help="checkpoint folder or Hub name")
    add("--student", default="static", help="static; layers=0,3,5: the teacher's layers to keep; or the "
        "folder of a layer student, to continue its training (default: static)")  # fmt: skip
    add("--train_file", nargs="+", required=True, help="texts: .txt, .parquet, .jsonl, .csv ...")
    add("--pairs", help="also pairs or triplets: a table with 2 or 3 columns of text")
    add("--output", "-o", required=True, help="folder of the student")
    add("--overwrite", action="store_true", help="write into a folder that has files")
    add("--max_train_samples", type=int, help="number of texts, drawn at random (default: all)")
    add("--pooling", help="pooling of a teacher that records none")
    add("--cache", help="folder that keeps the teacher's vectors (default: beside --output)")
    add("--dim", type=int, default=256, help="dimension of a static student (default: 256)")
    add(
        "--storage",
        default="float16",
        choices=("float32", "float16", "int8"),
        help="storage of the weights (int8: static)",
    )
    add("--regularization", type=float, default=0.1, help="regularization of the fit (default: 0.1)")
    add("--max_length", type=int, default=128, help="longest text of a layer student, in tokens (default: 128)")
    for name, default in STATIC.items():
        otherwise = f"; layers: {LAYERS[name]}" if LAYERS[name] != default else ""
        usual = "1600, or 100 passes if fewer" if default is None else default
        add(f"--{name}", type=type(LAYERS[name]), help=f"{_MEANING[name]} (default: {usual}{otherwise})")
    parser.set_defaults(function=_distill)


def _distill(args: argparse.Namespace) -> None:
    from contrastive_st.scripts.distill import main

    for name, default in (STATIC if args.student == "static" else LAYERS).items():
        if getattr(args, name) is None:
            setattr(args, name, default)
    main(args)
