"""Labelled pairs to train on: SNLI, MultiNLI, QQP, MRPC, STS benchmark, SICK, from their files or from the Hub."""

from __future__ import annotations

import csv
import json
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import datasets
from transformers import PreTrainedTokenizerBase

from contrastive_st.data.text_files import numbered_lines
from contrastive_st.data.tokenize import tokenize
from contrastive_st.errors import InputError

logger = logging.getLogger(__name__)
NLI_LABELS = ("entailment", "neutral", "contradiction")
_FIRST = ("sentence1", "premise", "sentence_A", "question1", "#1 String", "first")
_SECOND = ("sentence2", "hypothesis", "sentence_B", "question2", "#2 String", "second")
_GOLD = ("gold_label", "entailment_judgment", "is_duplicate", "Quality", "label", "relatedness_score", "score")
_RANGES = {"score": (0.0, 1.0), "relatedness_score": (1.0, 5.0)}
_STS_HEADER = ["genre", "file", "year", "id", "sts_score", "sentence1", "sentence2"]  # its files have none


@dataclass(frozen=True)
class PairSet:
    """A data set of the Hub: its name and config, its columns, and what it calls its splits."""

    name: str
    columns: tuple[str, str, str]
    config: str | None = None
    dev: str = "validation"
    revision: str | None = None


_NLI = ("premise", "hypothesis", "label")
PAIR_SETS = {
    "SNLI": PairSet("stanfordnlp/snli", _NLI),
    "MultiNLI": PairSet("nyu-mll/multi_nli", _NLI, dev="validation_matched"),
    "QQP": PairSet("nyu-mll/glue", ("question1", "question2", "label"), "qqp"),
    "MRPC": PairSet("nyu-mll/glue", ("sentence1", "sentence2", "label"), "mrpc"),
    "STSB": PairSet("sentence-transformers/stsb", ("sentence1", "sentence2", "score")),
    "SICK-R": PairSet(
        "RobZamp/sick", ("sentence_A", "sentence_B", "relatedness_score"), revision="refs/convert/parquet"
    ),
    "SICK-E": PairSet("RobZamp/sick", ("sentence_A", "sentence_B", "label"), revision="refs/convert/parquet"),
}


def read_pairs(
    source: str | Path, gold: str | None = None, *, scale: tuple[float, float] | None = None, split: str = "train"
) -> datasets.Dataset:
    """Read labelled pairs: columns `first`, `second`, and `label` (0, 1, ...) or `score` (0 to 1).

    | source                     | what is in it                                                          |
    |----------------------------|------------------------------------------------------------------------|
    | a name of `PAIR_SETS`      | that data set of the Hub; of it, `split` (train, dev or test)          |
    | `.jsonl`                   | an object a line, as SNLI and MultiNLI come                            |
    | `.tsv` `.txt`              | a header, then cells parted by tabs: SNLI, MultiNLI, QQP, MRPC, SICK   |
    | `.csv`                     | a header and commas; or STS benchmark's `sts-train.csv`, as it comes   |

    The columns are known by their names in those data sets. Labels are entailment 0, neutral 1, contradiction 2, or
    numbers. Rows without a gold label (`-`, -1 or blank) are left out, and a warning tells how many.

    Args:
        source: a file, or a name.
        gold: the column of labels or scores, where there are several (SICK: entailment_judgment, relatedness_score).
        scale: the lowest and highest score; SICK's, STS benchmark's and 0 to 1 are known.
        split: of a data set of the Hub.

    Raises:
        InputError: the source cannot be read as above; says where.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "pairs.tsv")
        ...     _ = path.write_text("premise\\thypothesis\\tlabel\\nA cat sat.\\tAn animal sat.\\tentailment\\n")
        ...     read_pairs(path)[0]
        {'first': 'A cat sat.', 'second': 'An animal sat.', 'label': 0}
    """
    named = {name.lower(): own for name, own in PAIR_SETS.items()}.get(str(source).lower())
    if named is not None:
        rows, columns = _from_hub(named, split), named.columns
    else:
        rows, columns = _from_file(Path(source).expanduser(), gold)
    scored = columns[2] if columns[2] in _RANGES or columns[2] == "sts_score" else None
    scale = scale or (_RANGES.get(scored, (0.0, 5.0)) if scored else None)
    kept: list[tuple[str, str, float]] = []
    left_out = 0
    for where, first, second, value in rows:
        if value is None or str(value).strip() in ("", "-", "-1"):
            left_out += 1
        else:
            kept.append((str(first).strip(), str(second).strip(), _gold(value, scale, where)))
    if left_out:
        logger.warning(f"{source}: left out {left_out} pairs without a gold label")
    if not kept:
        raise InputError(f"{source}: there is no labelled pair")
    first, second, values = zip(*kept, strict=True)
    return datasets.Dataset.from_dict({"first": first, "second": second, "score" if scale else "label": values})


def tokenize_pairs(pairs: datasets.Dataset, tokenizer: PreTrainedTokenizerBase, max_length: int) -> datasets.Dataset:
    """Rows `{"input_ids": [ids, ids], "label" or "score"}` for `LabelledPairCollator`."""
    name = next(name for name in ("label", "score") if name in pairs.column_names)
    rows = tokenize(pairs.select_columns(["first", "second"]), tokenizer, max_length)
    return rows.add_column(name, pairs[name][:])


def _gold(value: Any, scale: tuple[float, float] | None, where: str) -> float:
    text = str(value).strip().lower()
    if scale is None and text in NLI_LABELS:
        return NLI_LABELS.index(text)
    try:
        number = float(text)
    except ValueError:
        raise InputError(f"{where}: {value!r} is neither a number nor one of {', '.join(NLI_LABELS)}") from None
    if scale is None:
        if number != int(number) or number < 0:
            raise InputError(f"{where}: {value!r} is no class; for scores name their column, or give a scale")
        return int(number)
    low, high = scale
    if not low <= number <= high:
        raise InputError(f"{where}: the score {number:g} is not in {low:g} to {high:g}; give another scale")
    return (number - low) / (high - low)


def _from_hub(own: PairSet, split: str) -> Iterator[tuple[str, Any, Any, Any]]:
    split = own.dev if split == "dev" else split
    try:
        data = datasets.load_dataset(own.name, own.config, split=split, revision=own.revision)
    except Exception as error:  # a dozen types, from no network to no such split
        line = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise InputError(f"{own.name}, {split}: cannot be had from the Hub ({line}); give a file of it") from error
    for number, row in enumerate(data, 1):
        yield (f"{own.name}, row {number}", *(row[name] for name in own.columns))


def _from_file(path: Path, gold: str | None) -> tuple[Iterator[tuple[str, Any, Any, Any]], tuple[str, str, str]]:
    if not path.is_file():
        raise InputError(f"{path}: there is no such file, nor is it one of {', '.join(PAIR_SETS)}")
    table = _objects(path) if path.suffix == ".jsonl" else _table(path)
    where, header = next(table, (str(path), []))
    columns = []
    for what, names in (("first", _FIRST), ("second", _SECOND), ("gold", (gold,) if gold else (*_GOLD, "sts_score"))):
        found = [name for name in names if name in header]
        if not found:
            raise InputError(f"{where}: no column of the {what} texts or labels; name one {', '.join(map(str, names))}")
        columns.append(str(found[0]))
    places = [header.index(name) for name in columns]

    def rows() -> Iterator[tuple[str, Any, Any, Any]]:
        for place, cells in table:
            if len(cells) < len(header):
                raise InputError(f"{place}: {len(cells)} cells where the header has {len(header)}; mend the row")
            yield (place, *(cells[i] for i in places))

    return rows(), tuple(columns)  # type: ignore[return-value]


def _table(path: Path) -> Iterator[tuple[str, Sequence[Any]]]:
    """The header, then the rows, each with its place."""
    lines = numbered_lines(path, str(path))
    number, first = next(lines, (1, ""))
    tabs = "\t" in first
    cells = lambda line: line.rstrip("\r\n").split("\t") if tabs else next(csv.reader([line]))
    header = cells(first)
    if tabs and path.suffix == ".csv" and not set(header) & {*_FIRST, *_SECOND}:
        yield str(path), _STS_HEADER
    yield f"{path}, line {number}", header
    for number, line in lines:
        if line.strip():
            yield f"{path}, line {number}", cells(line)


def _objects(path: Path) -> Iterator[tuple[str, Sequence[Any]]]:
    names: list[str] = []
    for number, line in numbered_lines(path, str(path)):
        try:
            item = json.loads(line)
        except json.JSONDecodeError as error:
            raise InputError(f"{path}, line {number}: broken JSON ({error.msg}); write one object a line") from error
        if not names:
            names = list(item)
            yield str(path), names
        yield f"{path}, line {number}", [item.get(name) for name in names]
