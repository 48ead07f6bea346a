"""The input of the mining: distinct anchors and documents by number, and which of them are pairs."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import datasets
import numpy as np
from numpy.typing import NDArray

from contrastive_st.data.reading import in_memory, texts as reading
from contrastive_st.data.reading.examples import read_examples
from contrastive_st.errors import InputError
from contrastive_st.search.values import digests

logger = logging.getLogger(__name__)
_READ = 16_384  # texts that are read at a time
Numbers = NDArray[np.int64]


def pair_columns(
    dataset: object, anchor: str | None, positive: str | None
) -> tuple[tuple[Column, Column], dict[str, str]]:
    """The columns of anchors and of positives, as their names or cells tell; and why each other column is not used.

    Args:
        dataset: pairs, as for `mine_hard_negatives`.
        anchor: the column of the anchors, if its name does not tell.
        positive: that of the positives.

    Returns:
        Both columns; and the reason for each other one, by its name.
    """
    named = ((anchor, "=anchor"), (positive, "=positive"))  # with their roles, if they are as a question names them
    columns = None if anchor is None else [f"{str(name).removesuffix(role)}{role}" for name, role in named]
    rows, roles = read_examples(dataset, columns)
    if roles.target or len(roles.texts) < 2:
        fix = "name two columns of text, --columns ANCHOR POSITIVE"
        raise InputError(f"{roles.source} has {roles.words}, but mining needs anchors and their positives; {fix}")
    logger.info(str(roles))
    anchors, positives, *others = (Column(rows, name) for name in rows.column_names)
    return (anchors, positives), {**roles.left_out, **{column.name: "new negatives are mined" for column in others}}


def read_corpus(corpus: object, column: str | None) -> Column:
    """The texts to take negatives from: of a file, or in memory.

    Args:
        corpus: a file, or texts in memory.
        column: the column of the texts, if there are several.

    Returns:
        The texts.
    """
    source = corpus if isinstance(corpus, (str, Path)) else in_memory(corpus, "the corpus")
    try:
        rows = reading.read_corpus(source, column)
    except InputError as error:  # its column has an option of its own here; the roles of several say nothing
        message = re.sub(r"(--header \w+) --columns [^;]+", r"\1", str(error))
        raise InputError(message.replace("--columns", "--corpus_column")) from None
    return Column(rows, rows.column_names[0])


class Column:
    """A column of text, which may be on disk."""

    def __init__(self, rows: datasets.Dataset, name: str) -> None:
        self.rows, self.name = rows.select_columns([name]).with_format("arrow"), name

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, rows: Numbers) -> list[str]:
        texts: list[str] = self.rows[rows.tolist()][self.name].to_pylist()
        return texts

    def keys(self) -> NDArray[np.int64]:
        """`[N]`, equal for texts that are the same apart from case and white space."""
        texts = (text for table in self.rows.iter(_READ) for text in table[self.name].to_pylist())
        return digests(" ".join(text.casefold().split()).encode("utf-8", "surrogatepass") for text in texts)


class Distinct:
    """The distinct texts of some columns, numbered in the order of their first occurrence; `[numbers]` gives them."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self.columns = columns
        all_keys = np.concatenate([column.keys() for column in columns])
        keys, first, number = np.unique(all_keys, return_index=True, return_inverse=True)
        order = np.argsort(first)
        self.keys, self.first = keys[order], first[order]
        self.number = np.argsort(order)[number]  # of each row
        self.starts = np.cumsum([0, *map(len, columns)])

    def __len__(self) -> int:
        return len(self.first)

    def __getitem__(self, numbers: Numbers) -> list[str]:
        rows = self.first[numbers]
        texts = np.empty(len(rows), dtype=object)
        for start, column in zip(self.starts, self.columns, strict=False):
            block = np.flatnonzero((rows >= start) & (rows < start + len(column)))
            if len(block):
                texts[block] = column[rows[block] - start]
        return list(texts)


@dataclass(frozen=True)
class Block:
    """A block of anchors; rows are counted from its first anchor.

    Args:
        anchors: Q texts.
        rows: row `[P]` of the anchor of each pair, ascending.
        positives: document number `[P]` of the positive of each pair.
        places: position `[P]` of each pair among all pairs.
        barred: rows and document numbers that may not be negatives.
    """

    anchors: list[str]
    rows: Numbers
    positives: Numbers
    places: Numbers
    barred: tuple[Numbers, Numbers]


class KnownPairs:
    """Distinct anchors, distinct documents, and the positives of each anchor.

    Only the first `searched` documents may be negatives; with `include_positives` an anchor's positives may be, too.
    """

    def __init__(
        self, anchors: Column, positives: Column, corpus: Sequence[Column], include_positives: bool = False
    ) -> None:
        self.columns = anchors, positives
        self.anchors, self.documents = Distinct([anchors]), Distinct([*corpus, positives])
        number = self.documents.number
        self.searched = int(number[: len(corpus[0]) if corpus else None].max()) + 1
        count = len(self.documents)
        self._pairs, self._rows = np.unique(self.anchors.number * count + number[-len(positives) :], return_index=True)
        keys = self.anchors.keys, self.documents.keys
        _, anchor, itself = np.intersect1d(*keys, assume_unique=True, return_indices=True)
        itself = anchor * count + itself
        self._barred = np.unique(itself) if include_positives else np.union1d(self._pairs, itself)

    def block(self, start: int, stop: int) -> Block:
        """The anchors from `start` to before `stop`."""
        texts, barred = self.anchors[np.arange(start, stop)], self._of(self._barred, start, stop)
        return Block(texts, *self._of(self._pairs, start, stop), barred[:2])

    def texts_of(self, places: Numbers) -> tuple[list[str], list[str]]:
        """Anchors and positives of some pairs, as given."""
        anchors, positives = self.columns
        return anchors[self._rows[places]], positives[self._rows[places]]

    def _of(self, pairs: Numbers, start: int, stop: int) -> tuple[Numbers, Numbers, Numbers]:
        """For these anchors: the rows counted from the first one, the documents, and their positions in `pairs`."""
        count = len(self.documents)
        first, last = np.searchsorted(pairs, [start * count, stop * count])
        return pairs[first:last] // count - start, pairs[first:last] % count, np.arange(first, last)
