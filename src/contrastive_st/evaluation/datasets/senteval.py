"""Readers for SentEval's `data/downstream` layout, and for files of labelled pairs.

Each takes the folder that contains the task's folder and returns `Splits`. A split or subset without its file is listed
as missing; a damaged file is an error.
"""

from __future__ import annotations

import codecs
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from contrastive_st.data.profile import number_in
from contrastive_st.data.reading.content import MissingData, check_file, path_of, text_lines
from contrastive_st.errors import InputError

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


def read_cells(path: str | Path, wanted: Sequence[int], *, header: bool = False) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of each line, counted from 1, and its `wanted` cells.

    Tabs separate cells, and quotes mean nothing. Other columns are ignored, and blank lines are skipped.

    Args:
        path: the file.
        wanted: column numbers, from 0.
        header: skip the first line.

    Raises:
        InputError: a line has too few columns; the message names the file and the line.
    """
    least = max(wanted) + 1
    for number, line in _lines(path):
        if (header and number == 1) or not line.strip():
            continue
        cells = line.split("\t")
        if len(cells) < least:
            count = f"{len(cells)} column{'s' * (len(cells) > 1)}, but at least {least} are needed"
            raise InputError(f"{path}, line {number}: {count}; is it tab-separated?")
        yield number, [cells[i] for i in wanted]


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


@dataclass(frozen=True)
class Splits(Mapping[str, Rows]):
    """The splits or subsets of a task by name, and the reasons why others are `missing`."""

    rows: Mapping[str, Rows]
    missing: Mapping[str, str]
    classes: Sequence[str] = ()

    def __getitem__(self, name: str) -> Rows:
        return self.rows[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def why_missing(self, name: str) -> str:
        """Why there is no split of this name, for the note of a score."""
        return self.missing.get(name, "no such split")

    def texts(self) -> Iterator[str]:
        """All sentences; they may repeat."""
        return (text for rows in self.rows.values() for column in rows.columns for text in column)


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
    return read_present(files, lambda files: read_sts_subset(*files))


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


def read_stsb(root: Path) -> Splits:
    """`STS/STSBenchmark/sts-*.csv`: score and sentences in the columns 5 to 7."""
    folder = root / "STS" / "STSBenchmark"
    return read_present({split: folder / f"sts-{split}.csv" for split in ("train", "dev", "test")}, read_stsb_file)


def read_stsb_file(path: Path) -> Rows:
    """One file of STS-B."""
    rows = [
        (tidy(a), tidy(b), number_in(score, f"{path}, line {line}"))
        for line, (score, a, b) in read_cells(path, (4, 5, 6))
    ]
    return pair_rows([row[:2] for row in rows], [row[2] for row in rows])


def read_sick_relatedness(root: Path) -> Splits:
    """`SICK/SICK_*.txt`, scores 1 to 5; "trial" is the dev split."""
    return read_present(_sick(root), lambda path: _read_sick(path, 3))


def read_sick_entailment(root: Path) -> Splits:
    """`SICK/SICK_*.txt`, three classes."""
    return read_present(_sick(root), lambda path: _read_sick(path, 4), ENTAILMENT)


def _sick(root: Path) -> dict[str, Path]:
    names = {"train": "SICK_train.txt", "dev": "SICK_trial.txt", "test": "SICK_test_annotated.txt"}
    return {split: root / "SICK" / name for split, name in names.items()}


def _read_sick(path: Path, column: int) -> Rows:
    rows = list(read_cells(path, (1, 2, column), header=True))
    labels = [
        number_in(cell, f"{path}, line {line}") if column == 3 else class_of(cell, ENTAILMENT, path, line)
        for line, (_, _, cell) in rows
    ]
    return pair_rows([(tidy(a), tidy(b)) for _, (a, b, _) in rows], labels)


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
    return Splits({"all": Rows(([" ".join(words) for words, _ in texts],), labels)}, {}, BINARY)


def read_sst2(root: Path) -> Splits:
    """`SST/binary/sentiment-*`: text, tab, 0 or 1."""
    files = {split: root / "SST" / "binary" / f"sentiment-{split}" for split in ("train", "dev", "test")}

    def read(path: Path) -> Rows:
        rows = [(tidy(text), class_of(label, BINARY, path, line)) for line, (text, label) in read_cells(path, (0, 1))]
        return Rows(([text for text, _ in rows],), np.array([label for _, label in rows]))

    return read_present(files, read, BINARY)


def read_trec(root: Path) -> Splits:
    """`TREC/train_5500.label` and `TREC_10.label`: "NUM:dist How far ..."; the six coarse classes."""
    folder = root / "TREC"
    return read_present({"train": folder / "train_5500.label", "test": folder / "TREC_10.label"}, _read_trec, QUESTIONS)


def _read_trec(path: Path) -> Rows:
    texts, labels = [], []
    for number, line in enumerate(read_lines(path), 1):
        label, _, text = line.partition(" ")
        labels.append(class_of(label.partition(":")[0], QUESTIONS, path, number))
        texts.append(tidy(text))
    return Rows((texts,), np.array(labels))


def read_mrpc(root: Path) -> Splits:
    """`MRPC/msr_paraphrase_*.txt`: a header, then label, two ids, two sentences."""
    files = {split: root / "MRPC" / f"msr_paraphrase_{split}.txt" for split in ("train", "test")}
    return read_present(files, lambda path: read_labelled_pairs(path, (0, 3, 4)), BINARY)


def read_qqp(root: Path) -> Splits:
    """`quora_train.txt` and `quora_test.txt`: a header, then label and two questions."""
    files = {split: root / f"quora_{split}.txt" for split in ("train", "test")}
    return read_present(files, lambda path: read_labelled_pairs(path, (0, 1, 2)), BINARY)


def read_labelled_pairs(
    path: str | Path, columns: tuple[int, int, int] = (0, 1, 2), classes: Sequence[str] = BINARY
) -> Rows:
    """Any tab-separated file with a header: the columns of the label and of the two sentences.

    Args:
        path: the file.
        columns: column numbers of the label and of both sentences, from 0.
        classes: names of the classes, in order of their numbers.

    Returns:
        The pairs and their class numbers.
    """
    rows = list(read_cells(path, columns, header=True))
    labels = [class_of(label, classes, path, line) for line, (label, _, _) in rows]
    return pair_rows([(tidy(a), tidy(b)) for _, (_, a, b) in rows], labels)


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


def read_present(files: Mapping[str, object], read: Callable[..., Rows], classes: Sequence[str] = ()) -> Splits:
    """Read the files that exist, `{part: path or tuple of paths}`; the others are listed as missing.

    Args:
        files: the path, or the paths, of each part.
        read: reads the path or paths of one part.
        classes: names of the classes.

    Returns:
        The parts whose files exist, and why others are missing.

    Raises:
        MissingData: none of the files exists.
    """
    paths_of = {part: where if isinstance(where, tuple) else (where,) for part, where in files.items()}
    absent = {part: [path for path in paths if not path.is_file()] for part, paths in paths_of.items()}
    missing = {part: f"{paths[0].name} is missing" for part, paths in absent.items() if paths}
    if len(missing) == len(files):
        first = next(path for paths in absent.values() for path in paths)
        raise MissingData(f"no {first.name} in the folder {first.parent.name}, nor the files that go with it")
    return Splits({part: read(where) for part, where in files.items() if part not in missing}, missing, classes)
