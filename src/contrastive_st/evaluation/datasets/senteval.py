"""Readers for SentEval's `data/downstream` layout, and for files of labelled pairs.

Each takes the folder that contains the task's folder and returns `Splits`. A split or subset without its file is listed
as missing; a damaged file is an error.
"""

from __future__ import annotations

import codecs
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from contrastive_st.data.profile import number_in
from contrastive_st.data.reading.content import MissingData, check_file, path_of, text_lines
from contrastive_st.errors import InputError
from contrastive_st.text_format import reading_as

codecs.register_error("latin-1", lambda error: (error.object[error.start : error.end].decode("latin-1"), error.end))  # type: ignore[attr-defined]


def _lines(path: str | Path) -> Iterator[tuple[int, str]]:
    """The numbered lines of a file in UTF-8, in which single characters may be Latin-1."""
    lines = text_lines(path_of(path), str(path), errors="latin-1")
    return enumerate((line.rstrip("\r\n") for line in lines), 1)


def read_lines(path: str | Path) -> list[str]:
    """The lines of a file of evaluation data, in UTF-8 or Latin-1.

    Raises:
        MissingData: the file does not exist.
        InputError: it is empty.
    """
    check_file(Path(path), path)
    return [line for _, line in _lines(path)]


def read_cells(path: str | Path, columns: Sequence[int], *, header: bool = False) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of each line, counted from 1, and its cells of `columns`.

    Tabs separate cells, and quotes mean nothing. Other columns are ignored, and blank lines are skipped.

    Args:
        path: the file.
        columns: column numbers, from 0.
        header: skip the first line.

    Raises:
        InputError: a line has too few columns; the message names the file and the line.
    """
    least = max(columns) + 1
    for number, line in _lines(path):
        if (header and number == 1) or not line.strip():
            continue
        cells = line.split("\t")
        if len(cells) < least:
            count = f"{len(cells)} column{'s' * (len(cells) > 1)}, but at least {least} are needed"
            raise InputError(f"{path}, line {number}: {count}; is it tab-separated?")
        yield number, [cells[i] for i in columns]


def tidy(text: str) -> str:
    """Put single spaces between words and none around the text, as SentEval does by splitting and joining lines."""
    return " ".join(text.split())


DATA_VARIABLE = "CONTRASTIVE_ST_DATA"


def find_stsb(split: str = "dev") -> Path | None:
    """SentEval's STS-B file below `$CONTRASTIVE_ST_DATA`, or None if it is not available."""
    root = os.environ.get(DATA_VARIABLE)
    path = Path(root or "", "senteval", "STS", "STSBenchmark", f"sts-{split}.csv")
    return path if root and path.is_file() else None


# --- What a reader returns: columns of sentences and their labels.

Embed = Callable[[Sequence[str]], NDArray[np.floating]]  # [N] texts -> [N, d]


class Query(str):
    """A text that is encoded as a query: with the prompt for queries if the model has one."""


class Document(str):
    """A text that is encoded as a document."""


@dataclass(frozen=True)
class Rows:
    """N examples: `columns` of N sentences each (one, or two for pairs), `labels` `[N]` scores or class numbers."""

    columns: tuple[list[str], ...]
    labels: np.ndarray

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, index: NDArray[np.integer]) -> Rows:
        """The rows at `index`, in that order."""
        return Rows(tuple([column[i] for i in index] for column in self.columns), self.labels[index])


class Splits(dict[str, Rows]):
    """The splits or subsets of a task by name, and the reasons why others are `missing`."""

    def __init__(self, rows: Mapping[str, Rows], missing: Mapping[str, str] | None = None) -> None:
        super().__init__(rows)
        self.missing = missing or {}

    def why_missing(self, name: str) -> str:
        """Why there is no split of this name, for the note of a score."""
        return self.missing.get(name, f"no {name} split")

    def needed(self, *names: str) -> list[Rows]:
        """Splits without which a task is not run.

        Raises:
            MissingData: one of them is missing; says why.
        """
        if missing := [self.why_missing(name) for name in names if name not in self]:
            raise MissingData("; ".join(missing))
        return [self[name] for name in names]

    def texts(self) -> Iterator[str]:
        """All sentences; they may repeat."""
        return (text for rows in self.values() for column in rows.columns for text in column)


def pair_rows(pairs: Sequence[tuple[str, str]], labels: Sequence[float] | Sequence[int]) -> Rows:
    """Rows of two columns.

    Args:
        pairs: N pairs of texts.
        labels: N scores or class numbers.

    Returns:
        The rows.
    """
    return Rows(([a for a, _ in pairs], [b for _, b in pairs]), np.asarray(labels))


SUBSETS = {
    "STS12": ("MSRpar", "MSRvid", "SMTeuroparl", "surprise.OnWN", "surprise.SMTnews"),
    "STS13": ("FNWN", "headlines", "OnWN"),  # SMT is not free, so SentEval and the papers leave it out
    "STS14": ("deft-forum", "deft-news", "headlines", "images", "OnWN", "tweet-news"),
    "STS15": ("answers-forums", "answers-students", "belief", "headlines", "images"),
    "STS16": ("answer-answer", "headlines", "plagiarism", "postediting", "question-question"),
}
QUESTIONS = ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")
BINARY = ("0", "1")
_PUBLISHED = reading_as(decimal="point")  # these files have points, whatever the tables of the user have
ENTAILMENT = ("CONTRADICTION", "NEUTRAL", "ENTAILMENT")


def read_sts(root: Path, name: str) -> Splits:
    """`STS/STS12-en-test/STS.input.*.txt` and `STS.gs.*.txt`; a pair with a blank score is left out.

    Args:
        root: the folder that contains `STS`.
        name: such as STS12.

    Returns:
        One part per subset.
    """
    folder = root / "STS" / f"{name}-en-test"
    files = {subset: (folder / f"STS.input.{subset}.txt", folder / f"STS.gs.{subset}.txt") for subset in SUBSETS[name]}
    return read_present(files, read_sts_subset)


@_PUBLISHED
def read_sts_subset(texts: Path, score_file: Path) -> Rows:
    """One subset: a pair on each line; the same line of the other file has its score, 0 to 5, or is blank.

    Args:
        texts: the file of the pairs.
        score_file: the file of the scores.

    Returns:
        The pairs that have a score.
    """
    scores = read_lines(score_file)
    lines = read_lines(texts)
    if len(scores) != len(lines):
        raise InputError(f"{score_file}: {len(scores)} lines, and {texts.name} has {len(lines)}; both need as many")
    cells = dict(read_cells(texts, (0, 1)))
    kept = [number for number in cells if scores[number - 1].strip()]
    pairs = [(tidy(cells[number][0]), tidy(cells[number][1])) for number in kept]
    return pair_rows(pairs, [number_in(scores[number - 1], f"{score_file}, line {number}") for number in kept])


@_PUBLISHED
def read_labelled(
    path: str | Path, columns: Sequence[int] = (0, 1, 2), classes: Sequence[str] = BINARY, header: bool = True
) -> Rows:
    """Any tab-separated file: the columns of the label and of the sentences.

    Args:
        path: the file.
        columns: column numbers of the label and of each sentence, from 0.
        classes: names of the classes, in order of their numbers; none if the labels are scores.
        header: skip the first line.

    Returns:
        The sentences and their class numbers or scores.
    """
    rows = list(read_cells(path, columns, header=header))
    labels = [
        class_of(label, classes, path, line) if classes else number_in(label, f"{path}, line {line}")
        for line, (label, *_) in rows
    ]
    return Rows(tuple([tidy(cells[i]) for _, cells in rows] for i in range(1, len(columns))), np.asarray(labels))


def _reader(
    files: Mapping[str, str], columns: Sequence[int], classes: Sequence[str] = (), header: bool = True
) -> Callable[[Path], Splits]:
    """A function that reads files below a folder, by split, each with `read_labelled`."""
    read = partial(read_labelled, columns=columns, classes=classes, header=header)
    return lambda root: read_present({split: (root / name,) for split, name in files.items()}, read)


_SPLITS = ("train", "dev", "test")
_SICK = {"train": "SICK/SICK_train.txt", "dev": "SICK/SICK_trial.txt", "test": "SICK/SICK_test_annotated.txt"}
#: Scores 0 to 5; no header
read_stsb_file = partial(read_labelled, columns=(4, 5, 6), classes=(), header=False)
read_stsb = _reader({split: f"STS/STSBenchmark/sts-{split}.csv" for split in _SPLITS}, (4, 5, 6), header=False)
#: Scores 1 to 5, and three classes
read_sick_relatedness = _reader(_SICK, (3, 1, 2))
read_sick_entailment = _reader(_SICK, (4, 1, 2), ENTAILMENT)
read_sst2 = _reader({split: f"SST/binary/sentiment-{split}" for split in _SPLITS}, (1, 0), BINARY, header=False)
#: Label, two ids, two sentences
read_mrpc = _reader({split: f"MRPC/msr_paraphrase_{split}.txt" for split in ("train", "test")}, (0, 3, 4), BINARY)
read_qqp = _reader({split: f"quora_{split}.txt" for split in ("train", "test")}, (0, 1, 2), BINARY)


def read_polarity(root: Path, positive: str, negative: str) -> Splits:
    """MR, CR, SUBJ, MPQA: one file per class; in SentEval's order, by length in words and then by class.

    Args:
        root: the folder that contains both files.
        positive: path of the file of class 1, from there.
        negative: path of the file of class 0, from there.

    Returns:
        `Splits` with one part, "all".
    """
    for name in (positive, negative):
        if not (root / name).is_file():
            raise MissingData(f"{name} is missing")
    texts = [
        (line.split(), label) for label, name in ((1, positive), (0, negative)) for line in read_lines(root / name)
    ]
    texts.sort(key=lambda row: (len(row[0]), row[1]))
    labels = np.array([label for _, label in texts])
    return Splits({"all": Rows(([" ".join(words) for words, _ in texts],), labels)})


def read_trec(root: Path) -> Splits:
    """`TREC/train_5500.label` and `TREC_10.label`: "NUM:dist How far ..."; the six coarse classes."""
    files = {"train": (root / "TREC/train_5500.label",), "test": (root / "TREC/TREC_10.label",)}
    return read_present(files, _read_trec)


def _read_trec(path: Path) -> Rows:
    texts, labels = [], []
    for number, line in enumerate(read_lines(path), 1):
        label, _, text = line.partition(" ")
        labels.append(class_of(label.partition(":")[0], QUESTIONS, path, number))
        texts.append(tidy(text))
    return Rows((texts,), np.array(labels))


def class_of(name: str, classes: Sequence[str], path: str | Path, line: int) -> int:
    """The number of a class, or an error that names the file and the line.

    Args:
        name: the cell.
        classes: names of the classes, in order of their numbers.
        path: the file, for the error.
        line: the line, for the error.

    Returns:
        The number of the class.
    """
    if name.strip() not in classes:
        raise InputError(f"{path}, line {line}: {name.strip()!r} is none of {', '.join(classes)}")
    return classes.index(name.strip())


def read_present(files: Mapping[str, Sequence[Path]], read: Callable[..., Rows]) -> Splits:
    """Read the files that exist; the others are listed as missing.

    Args:
        files: the paths of each part.
        read: reads the paths of one part.

    Returns:
        The parts whose files exist, and why others are missing.

    Raises:
        MissingData: none of the files exists.
    """
    absent = {part: [path for path in paths if not path.is_file()] for part, paths in files.items()}
    missing = {part: f"{paths[0].name} is missing" for part, paths in absent.items() if paths}
    if len(missing) == len(files):
        first = next(iter(absent.values()))[0]
        raise MissingData(f"no {first.name} in the folder {first.parent.name}, nor the files that go with it")
    return Splits({part: read(*paths) for part, paths in files.items() if part not in missing}, missing)
