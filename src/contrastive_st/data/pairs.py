"""Pairs for training: labelled pairs from files or the Hub, pairs with a guide's vectors, and back-translations."""

from __future__ import annotations

import csv
import logging
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import Dataset
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, PreTrainedTokenizerBase

from contrastive_st.data.readers import Row, Rows, numbered_lines, open_rows, path_of, read_cells, reading, table
from contrastive_st.data.roles import NLI_LABELS
from contrastive_st.data.tables import stored
from contrastive_st.data.tokenizers import tokenize
from contrastive_st.errors import InputError, first_line
from contrastive_st.tokens import pad_rows, token_ids

# --- Rows with the vectors of their texts from another encoder, by which a guided loss masks false negatives.


class GuidedRows(Dataset[dict[str, Any]]):
    """Tokenized rows, each with the guide's vectors `[T, D]` of its T texts, which pair collators use as targets.

    Args:
        rows: the result of `tokenize` for these texts.
        texts: a column for each of the T texts.
        guide: returns vectors `[n, D]` of a list of texts. It is called for each row each time that the row is read, so
            it should be fast or look the vectors up, as `EmbeddingStore` does.

    Raises:
        InputError: the numbers of rows and texts differ.

    Example:
        >>> texts = datasets.Dataset.from_dict({"anchor": ["a", "bcd"], "positive": ["ab", "e"]})
        >>> rows = [{"input_ids": [[5], [6]]}, {"input_ids": [[7], [8]]}]
        >>> lengths = lambda texts: np.array([[len(text), 1.0] for text in texts])
        >>> GuidedRows(rows, texts, lengths)[1]["guide"].tolist()
        [[3.0, 1.0], [1.0, 1.0]]
    """

    def __init__(
        self, rows: Any, texts: datasets.Dataset, guide: Callable[[list[str]], NDArray[np.floating[Any]]]
    ) -> None:
        if len(rows) != len(texts):
            raise InputError(f"{len(rows)} tokenized rows and {len(texts)} rows of text; give the texts of these rows")
        self.rows, self.texts, self.guide = rows, texts, guide

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {**self.rows[index], "guide": self.guide(list(self.texts[index].values()))}


# --- Paraphrases by translation into another language and back: positive pairs from single sentences (CERT).

logger = logging.getLogger(__name__)


class Translator:
    """A translation model of transformers, called with a list of texts.

    No code of the model's repository is run, and no pickle is opened.

    Args:
        name: folder or Hub name, such as `Helsinki-NLP/opus-mt-en-de`.
        device: where to run it; by default the GPU if there is one.
        max_length: most tokens of a text, and of its translation.
        num_beams: number of beams; 1 is greedy search.

    Raises:
        InputError: the model cannot be opened: it is not found, has no safetensors weights, or needs code of its own.
    """

    def __init__(self, name: str | Path, device: str | None = None, max_length: int = 128, num_beams: int = 4) -> None:
        self.device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        self.max_length, self.num_beams = max_length, num_beams
        try:
            self.tokenizer: Any = AutoTokenizer.from_pretrained(name, trust_remote_code=False)
            model: Any = AutoModelForSeq2SeqLM.from_pretrained(name, use_safetensors=True, trust_remote_code=False)
            self.model = model.to(self.device).eval()
        except (OSError, ValueError, ImportError) as error:
            raise InputError(f"cannot open the translation model {name}: {first_line(error)}") from error

    @torch.inference_mode()
    def __call__(self, texts: Sequence[str]) -> list[str]:
        """The translations, in the order of the texts."""
        rows = token_ids(self.tokenizer, texts, self.max_length)
        given, mask = (tensor.to(self.device) for tensor in pad_rows(rows, self.tokenizer.pad_token_id))
        batch = {"input_ids": given, "attention_mask": mask}
        ids = self.model.generate(**batch, max_new_tokens=self.max_length, num_beams=self.num_beams, do_sample=False)
        translations: list[str] = self.tokenizer.batch_decode(ids, skip_special_tokens=True)
        return translations


def back_translate(texts: Iterable[str], there: Any, back: Any, batch_size: int = 32) -> Iterator[tuple[str, str]]:
    """Yield pairs of a text and its back-translation, without those that are blank or equal to the text.

    Args:
        texts: the texts, read once, a batch at a time.
        there: translates a list of texts, such as a `Translator`.
        back: translates the translations back.
        batch_size: number of texts translated at a time.

    Example:
        >>> there, back = (lambda texts: [text.upper() for text in texts]), (lambda texts: [t.lower() for t in texts])
        >>> list(back_translate(["Two cats", "one"], there, back))
        [('Two cats', 'two cats')]
    """
    texts = iter(texts)
    while some := list(islice(texts, batch_size)):
        for text, other in zip(some, back(there(some)), strict=True):
            if other.strip() and other.strip() != text.strip():
                yield text, other.strip()


def write_pairs(pairs: Iterable[tuple[str, str]], path: str | Path) -> int:
    """Write pairs to a .csv file with the columns `text` and `back`, for `read_texts`; returns the number of pairs."""
    count = 0
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "back"])
        for pair in pairs:
            writer.writerow(pair)
            count += 1
    if not count:
        raise InputError("no pairs: every back-translation is blank or equal to its text; try other models")
    logger.info(f"{count} pairs in {path}")
    return count


_FIRST = ("sentence1", "premise", "sentence_A", "question1", "#1 String", "first")
_SECOND = ("sentence2", "hypothesis", "sentence_B", "question2", "#2 String", "second")
_GOLD = (
    "gold_label",
    "entailment_judgment",
    "is_duplicate",
    "Quality",
    "label",
    "relatedness_score",
    "score",
    "sts_score",
)
_RANGES = {"score": (0.0, 1.0), "relatedness_score": (1.0, 5.0)}
_STS_HEADER = ["genre", "file", "year", "id", "sts_score", "sentence1", "sentence2"]  # its files have no header


@dataclass(frozen=True)
class PairSet:
    """A data set of the Hub: its name and config, its columns, and the name of its dev split."""

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
    | a name of `PAIR_SETS`      | the split `split` (train, dev or test) of that data set of the Hub     |
    | `.jsonl`                   | one object per line, as SNLI and MultiNLI are published                |
    | `.tsv` `.txt`              | a header, then cells separated by tabs: SNLI, MultiNLI, QQP, MRPC, SICK |
    | `.csv`                     | a header and commas; or `sts-train.csv` of the STS benchmark as it is  |

    Columns are recognized by their names in those data sets. Labels are entailment 0, neutral 1, contradiction 2, or
    numbers. Rows without a gold label (`-`, -1 or blank) are left out, and a warning says how many.

    Args:
        source: a file, or a name of `PAIR_SETS`.
        gold: the column of labels or scores, if there are several (SICK: entailment_judgment, relatedness_score).
        scale: the lowest and highest score; by default that of SICK or the STS benchmark, or else 0 to 1.
        split: the split of a data set of the Hub.

    Raises:
        InputError: the source cannot be read as described; the message says where.

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
        rows, columns = _from_file(path_of(source), gold)
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
        raise InputError(f"{source}: no row has a label; give labelled pairs")
    first, second, values = zip(*kept, strict=True)
    return datasets.Dataset.from_dict({"first": first, "second": second, "score" if scale else "label": values})


def tokenize_pairs(pairs: datasets.Dataset, tokenizer: PreTrainedTokenizerBase, max_length: int) -> datasets.Dataset:
    """Rows `{"input_ids": [ids, ids], "label" or "score"}` for `LabelledPairCollator`."""
    return tokenize(pairs, tokenizer, max_length)


def sample(rows: datasets.Dataset, count: int | None, seed: int = 0) -> datasets.Dataset:
    """`count` of the rows, drawn by the seed; all rows for None.

    Example:
        >>> sample(datasets.Dataset.from_dict({"text": ["a", "b", "c"]}), 2).num_rows
        2
    """
    if count is None or count >= len(rows):
        return rows
    return rows.select(np.random.default_rng(seed).permutation(len(rows))[:count])


def split_by_first(pairs: datasets.Dataset) -> tuple[datasets.Dataset, datasets.Dataset, datasets.Dataset]:
    """Train, dev and test (0.8, 0.1, 0.1), by a checksum of the first text, so all its pairs are in one split.

    The NLI task of `contrastive-st evaluate` splits in the same way, so its test pairs are never trained on.

    Raises:
        InputError: a part would be empty.

    Example:
        >>> pairs = datasets.Dataset.from_dict({"first": [str(i) for i in range(100)], "second": ["a"] * 100})
        >>> [len(part) for part in split_by_first(pairs)]
        [74, 17, 9]
    """
    tenth = np.array([zlib.crc32(text.encode()) % 10 for text in pairs["first"][:]])
    parts = tenth > 1, tenth == 1, tenth == 0
    if not all(part.any() for part in parts):
        raise InputError(
            f"{len(pairs)} pairs of {len(set(pairs['first'][:]))} first texts are too few to hold out some of them for "
            "dev and test; give more"
        )
    return tuple(pairs.select(np.flatnonzero(part)) for part in parts)


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
            raise InputError(f"{where}: {value!r} is not a class; for scores, name their column or give a scale")
        return int(number)
    low, high = scale
    if not low <= number <= high:
        raise InputError(f"{where}: the score {number:g} is not in {low:g} to {high:g}; give another scale")
    return (number - low) / (high - low)


def _from_hub(own: PairSet, split: str) -> Iterator[tuple[str, Any, Any, Any]]:
    source = own.name + (f":{own.config}" if own.config else "")
    rows = stored(source, own.dev if split == "dev" else split, revision=own.revision)
    for number, row in enumerate(rows, 1):
        yield (f"{own.name}, row {number}", *(row[name] for name in own.columns))


def _from_file(path: Path, gold: str | None) -> tuple[Iterator[tuple[str, Any, Any, Any]], tuple[str, str, str]]:
    with reading(path):
        known = path.is_file()
    if not known:
        raise InputError(f"{path}: there is no such file, and it is not one of {', '.join(PAIR_SETS)}; check the name")
    rows, header = _opened(path)
    columns = []
    for what, names in (("first", _FIRST), ("second", _SECOND), ("gold", (gold,) if gold else _GOLD)):
        found = [name for name in names if name in header]
        if not found:
            raise InputError(f"{path}, line 1: no column for {what!r}; its name must be one of {', '.join(names)}")
        columns.append(found[0])
    first, second, values = columns
    cells = ((rows.where(number), row.get(first), row.get(second), row.get(values)) for number, row in rows)
    return cells, (first, second, values)


def _opened(path: Path) -> tuple[Rows, Sequence[str]]:
    """The rows of a file and its columns; files of the STS benchmark have no header."""
    if path.suffix in (".json", ".jsonl"):
        rows = open_rows(path)
        return rows, list(next(iter(rows), Row(1, {})).cells)
    _, line = next(numbered_lines(path), (1, ""))
    header, tabs = line.split("\t"), "\t" in line
    if path.suffix != ".csv" or not tabs or set(header) & {*_FIRST, *_SECOND}:
        return table(path, str(path), tabs=tabs, loose=True), header if tabs else next(csv.reader([line]), [])

    def read() -> Iterator[Row]:
        for number, cells in read_cells(path, range(len(_STS_HEADER))):
            yield Row(number, dict(zip(_STS_HEADER, cells, strict=True)))

    return Rows(str(path), "line", read), _STS_HEADER
