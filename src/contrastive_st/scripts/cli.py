"""`contrastive-st train` and `distill`."""

from __future__ import annotations

import ast
import runpy
import sys
from collections.abc import Iterator, Sequence
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import Literal

from contrastive_st import commands
from contrastive_st.commands import run
from contrastive_st.errors import InputError, suggestion
from contrastive_st.options import Count, CountOrZero, NotNegative, Options, Positive, option

_PACKAGE = Path(__file__).parents[1]
TRAIN_HELP = "train an encoder on a file, or with a script of the package: contrastive-st train [SCRIPT] ..."


def script_files() -> dict[str, Path]:
    """The training scripts by name: `examples/run_simcse.py` is `simcse`, and `examples/train.py` is the empty name.

    They are in `examples/` of a clone, and next to this package in an installation.

    Example:
        >>> script_files()["simcse"].name
        'run_simcse.py'
    """
    folder = next(folder for folder in (_PACKAGE / "examples", _PACKAGE.parents[1] / "examples") if folder.is_dir())
    result = {path.stem.removeprefix("run_"): path for path in sorted(folder.glob("run_*.py"))}
    return {"": folder / "train.py", **result}


def train(argv: Sequence[str]) -> int:
    """Run the training script that the first argument names; without one, the script that suits the data.

    Args:
        argv: the arguments after `train`.

    Returns:
        The exit code.
    """
    try:
        return run(lambda: _run_script(argv))
    except SystemExit as ended:  # of the script, which has printed its errors
        return int(ended.code or 0)


def _run_script(argv: Sequence[str]) -> None:
    if not argv or argv[0] in ("-h", "--help"):
        print("usage: contrastive-st train [SCRIPT] [options]\n\nscripts:")
        for name, path in script_files().items():
            docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
            print(f"  {name or '(none)':14} {docstring.splitlines()[0]}")
        print(f"\n{_ABOUT_SCRIPTS}")
        return
    from contrastive_st.scripts.parser import is_option_file, with_file  # here, because it takes torch

    named, result = not argv[0].startswith("-") and not is_option_file(argv[0]), script_files()
    name = argv[0].replace("-", "_") if named else _suitable_script(with_file(argv))
    if name not in result:
        raise InputError(f"no training script {argv[0]}; {suggestion(argv[0], filter(None, result))}")
    sys.argv = [str(result[name]), *argv[named:]]
    commands.program = f"contrastive-st train {name}".strip()
    sys.path.insert(0, str(result[name].parent))  # as `python` does, for what a script imports from its folder
    runpy.run_path(str(result[name]), run_name="__main__")


def _suitable_script(argv: Sequence[str]) -> str:
    """The script for options without a name: for a mixture, for text in documents, or else for a table."""
    options: dict[str, list[str]] = {}
    values: list[str] = []
    for word in argv:
        flag, _, value = word.partition("=")
        if flag.startswith("--"):  # a list goes on where its flag is given again
            values = options.setdefault("--" + flag[2:].replace("-", "_"), [])
            values += [value] if value else []
        else:
            values.append(word)
    if "--mixture" in options:
        return "mixture"
    from contrastive_st.data import in_documents

    files = options.get("--train_file", [])
    if not files or "--columns" in options or not in_documents(files):
        return ""
    return "neighbors" if "--model_name_or_path" in options else "static"


_ABOUT_SCRIPTS = """\
Without SCRIPT, the columns of --train_file decide what is trained, and --mixture FILE.yaml trains on several
data sets. A file of documents (a .txt with blank lines between documents, or a table with columns
text and doc) is given to the script `neighbors` if there is a --model_name_or_path, and else to `static`.
The options depend on the script, or on the columns of the file: contrastive-st train SCRIPT --help or
contrastive-st train --train_file FILE --help shows them."""


@dataclass
class Distill(Options):
    """train a small encoder (static, or with fewer layers) to reproduce the embeddings of a teacher

    contrastive-st distill sentence-transformers/all-MiniLM-L6-v2 --train_file texts.txt --output out/student
    """

    teacher: str = option("the teacher: checkpoint folder or Hub name", positional=True)
    student: str = option(
        "static: a static encoder; layers=0,3,5: a layer student, which starts from these layers of the teacher; or "
        "the folder of a layer student, to train it further",
        default="static",
    )
    train_file: list[str] = option("texts: any files or data sets that `train` reads", default=MISSING)
    pairs: str | None = option("pairs or triplets to train on as well: a table with 2 or 3 columns of text")
    output: Path = option("folder of the student", default=MISSING, short="-o")
    overwrite: bool = option("replace an existing output folder", default=False)
    max_train_samples: Count | None = option("number of texts, drawn at random (default: all)")
    pooling: str | None = option("pooling of the teacher, if its checkpoint does not record one")
    cache: Path | None = option("folder to cache the teacher's vectors in (default: next to --output)")
    dim: Count = option("dimension of a static student", default=256)
    storage: Literal["float32", "float16", "int8"] = option(
        "type of the saved weights; int8 only for a static student", default="float16"
    )
    regularization: NotNegative = option("regularization strength in fitting a static student", default=0.1)
    max_length: Count = option("maximum length of a text in tokens, for a layer student", default=128)
    batch_size: Count | None = option("texts per step (default: 512; for a layer student 128)", group="training")
    pair_batch_size: Count | None = option(
        "pairs or triplets per step (default: 512; for a layer student 64)", group="training"
    )
    learning_rate: Positive | None = option(
        "learning rate of AdamW (default: 0.001; for a layer student 0.0005)", group="training"
    )
    steps: CountOrZero | None = option(
        "number of steps; 0 means one pass over the texts (default: 1600 for a static student, or 100 passes if that "
        "is fewer steps; one pass for a student with layers)",
        group="training",
    )
    pair_weight: NotNegative | None = option(
        "weight of the InfoNCE loss on --pairs; the distance to the teacher has weight 1 (default: 0.1; for a layer "
        "student 0.05)",
        group="training",
    )
    temperature: Positive | None = option("temperature of InfoNCE (default: 0.05)", group="training")
    seed: CountOrZero | None = option("seed of the order of the texts (default: 0)", group="training")
    minutes: NotNegative | None = option("time limit in minutes (default: none)", group="training")

    def conflicts(self) -> Iterator[str]:
        """Yield a type of weights that only a static student can have."""
        if self.student != "static" and self.storage == "int8":
            yield "--storage int8 is for static students only; give float16 or float32 for a layer student"
        names = ("max_length",) if self.student == "static" else ("dim", "regularization")
        yield from self.unused(f"with --student {self.student}", *names)
        if self.pairs is None:
            yield from self.unused("without --pairs", "pair_batch_size", "pair_weight", "temperature")

    def __call__(self) -> None:
        """Train the student."""
        from contrastive_st.scripts.distill import main

        main(self)
