"""Mining of hard negatives: an exact search for the texts nearest to each anchor that are not its positives.

Nearest neighbours of a trained encoder as negatives: Xiong et al. 2021 (ANCE), https://arxiv.org/abs/2007.00808. Limits
relative to the positive's score: Moreira et al. 2024 (NV-Retriever), https://arxiv.org/abs/2407.15831. Scores of a
cross-encoder: Qu et al. 2021 (RocketQA), https://arxiv.org/abs/2010.08191.
"""

from __future__ import annotations

import csv
import hashlib
import json
import math
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from tqdm.auto import tqdm

from contrastive_st.data.roles import column_roles, read_examples
from contrastive_st.data.tables import PREVIEWED, read_texts
from contrastive_st.errors import InputError, first_line
from contrastive_st.models.default import open_encoder
from contrastive_st.safety.folders import check_weights
from contrastive_st.safety.repositories import local_folder
from contrastive_st.safety.writing import check_target, written_whole
from contrastive_st.terminal import peak_resident
from contrastive_st.vectors import top_k, unit_vectors

if TYPE_CHECKING:
    from contrastive_st.evaluation.embedding_store import (
        Encoder,
    )  # imported late: it imports torch, which static models do not need

_ANCHORS = 2048  # anchors that are searched for at a time
_DOCUMENTS = 16_384  # documents that they are compared with at a time: 2048 x 16,384 float32 are 128 MiB
_PAIRS = 8192  # candidates whose vectors are loaded at a time, to score them
FORMATS = ("n-tuple", "triplet")
STRATEGIES = ("top", "random")
Numbers = NDArray[np.int64]
Vectors = NDArray[np.float32]
Columns = dict[str, list[str]]  # rows of the output, by column


@dataclass(frozen=True)
class NegativeRules:
    """Rules that choose the negatives of an anchor; the names are those of sentence-transformers.

    Args:
        range_min: lowest rank of a negative, counted from 0 without the anchor's positives.
        range_max: highest rank of a negative, exclusive; by default `range_min + 10 * num_negatives`.
        num_negatives: negatives per anchor.
        max_score: highest score of a negative.
        min_score: lowest score of a negative.
        absolute_margin: a negative scores at least this much less than the positive.
        relative_margin: the same, as a share of the positive's score: 0.05 allows 95% of it.
        sampling_strategy: `top` takes those with the highest scores, `random` draws from all that the rules allow.
        seed: seed of `random`.

    Raises:
        InputError: a number is out of range.

    Example:
        >>> rules = NegativeRules(num_negatives=2, relative_margin=0.1)
        >>> rules.choose(np.array([[0.95, 0.8, 0.6, 0.5]]), np.array([0.9]), np.random.default_rng(0)).tolist()
        [[1, 2]]
    """

    range_min: int = 0
    range_max: int | None = None
    num_negatives: int = 3
    max_score: float | None = None
    min_score: float | None = None
    absolute_margin: float | None = None
    relative_margin: float | None = None
    sampling_strategy: str = "top"
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("range_min", 0), ("num_negatives", 1), ("seed", 0)):
            if getattr(self, name) < least:
                raise InputError(f"{name} {getattr(self, name)}: give {least} or more")
        for name in ("max_score", "min_score", "absolute_margin", "relative_margin"):
            if not math.isfinite(getattr(self, name) or 0.0):
                raise InputError(f"{name} {getattr(self, name)}: give a finite number")
        if self.range_min + self.num_negatives > self.candidates:
            room = f"ranks {self.range_min} to {self.range_max} have fewer than {self.num_negatives} negatives"
            raise InputError(f"range_max {self.range_max}: {room}; give {self.range_min + self.num_negatives} or more")
        if self.sampling_strategy not in STRATEGIES:
            raise InputError(f"sampling_strategy {self.sampling_strategy}: choose one of {', '.join(STRATEGIES)}")

    @property
    def candidates(self) -> int:
        """The number of nearest documents that are considered."""
        return self.range_min + 10 * self.num_negatives if self.range_max is None else self.range_max

    def choose(
        self, scores: NDArray[np.floating[Any]], positive: NDArray[np.floating[Any]], random: np.random.Generator
    ) -> Numbers:
        """Choose the negatives: positions among the candidates of each anchor, highest score first, padded with -1.

        Args:
            scores: scores `[Q, k]` of the candidates by rank; -inf if there is no candidate.
            positive: scores `[Q]` of the anchors' positives; the lowest one if there are several.
            random: the generator for `random`.

        Returns:
            `[Q, num_negatives]`.
        """
        highest = np.full(len(scores), np.inf if self.max_score is None else self.max_score)
        for margin, unit in ((self.absolute_margin, 1.0), (self.relative_margin, np.abs(positive))):
            if margin is not None:
                highest = np.minimum(highest, positive - margin * unit)
        may = (scores > -np.inf) & (scores <= highest[:, None])
        may[:, : self.range_min] = False
        if self.min_score is not None:
            may &= scores >= self.min_score
        key = -scores if self.sampling_strategy == "top" else random.random(scores.shape)
        order = np.argsort(np.where(may, key, np.inf), axis=1, kind="stable")[:, : self.num_negatives]
        taken = np.take_along_axis(np.where(may, scores, -np.inf), order, axis=1)
        falling = np.argsort(-taken, axis=1, kind="stable")
        places = np.full((len(scores), self.num_negatives), -1)
        found = np.take_along_axis(taken, falling, axis=1) > -np.inf
        places[:, : order.shape[1]] = np.where(found, np.take_along_axis(order, falling, axis=1), -1)
        return places


@dataclass
class MiningCounts:
    """Counts of the mining so far.

    Args:
        anchors: distinct anchors that were searched.
        rows: rows written.
        negatives: negatives in these rows; a negative in the rows of several positives of an anchor counts once.
        without: anchors without a row, because they have no negative or, for n-tuples, too few.
        seconds: seconds since the start.
    """

    anchors: int = 0
    rows: int = 0
    negatives: int = 0
    without: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        found = f"{self.negatives:,} negatives of {self.anchors:,} anchors in {self.rows:,} rows"
        cost = f"{self.seconds:,.1f} s, peak memory {peak_resident() / 2**30:.2f} GiB"
        return f"{found}; {self.without:,} anchors with too few are left out; {cost}"


def mine_hard_negatives(dataset: Any, model: Any = None, **options: Any) -> datasets.Dataset:
    """Mine hard negatives for pairs, in memory: the texts nearest to each anchor that are not its positives.

    Every anchor is compared with every document. A text that equals the anchor or one of its positives, apart from case
    and white space, is never its negative, and a row never has a negative twice. Memory is that of a block plus 50
    bytes per text; the vectors are in a temporary file as float16 (2 d bytes per text, cosines to about 1e-4).

    Args:
        dataset: pairs: a file, a folder, a data set of the Hub, or a `datasets.Dataset`. The names of its columns tell
            which is the anchor and which the positive.
        model: the encoder: a model that `SentenceEncoder` opens, or a function from texts to vectors. Recorded prompts
            named `query` and `document` are put before anchors and documents.
        options: options of `HardNegatives` and `NegativeRules`.

    Returns:
        Columns `anchor`, `positive` and `negative_1`, `negative_2`, ...; `negative` with `output_format="triplet"`. The
        rows of an anchor are adjacent.

    Raises:
        InputError: the pairs cannot be read, an option is out of range, or no anchor has enough negatives.

    Example:
        >>> pairs = datasets.Dataset.from_dict({
        ...     "question": ["what purrs?", "what barks?"], "answer": ["A cat purrs.", "A dog barks."]})
        >>> mine_hard_negatives(pairs, num_negatives=1)[0]
        {'anchor': 'what purrs?', 'positive': 'A cat purrs.', 'negative_1': 'A dog barks.'}
    """
    mined = HardNegatives(dataset, model, **options)
    return datasets.Dataset(datasets.table.InMemoryTable(pa.concat_tables(map(pa.table, mined))))


def write_hard_negatives(
    dataset: Any, output: str | Path, model: Any = None, *, overwrite: bool = False, **options: Any
) -> MiningCounts:
    """Mine hard negatives into a .jsonl, .csv or .parquet file, which is written as they are found.

    The file appears when it is complete.

    Args:
        dataset: as for `mine_hard_negatives`.
        output: the file.
        model: as for `mine_hard_negatives`.
        overwrite: replace a file that exists.
        options: as for `mine_hard_negatives`.

    Raises:
        InputError: as for `mine_hard_negatives`; or the file exists already or cannot be written.
    """
    if Path(output).suffix not in _WRITERS:
        raise InputError(f"--output {output}: write one of {', '.join(_WRITERS)}")
    check_target(output, overwrite)
    mined = HardNegatives(dataset, model, **options)
    with written_whole(output, overwrite) as path, _WRITERS[path.suffix](path, mined.columns) as write:
        for columns in mined:
            write(columns)
    return mined.counts


class HardNegatives:
    """An iterator over pairs with hard negatives, in blocks, each a dictionary of columns.

    Args:
        dataset, model: as for `mine_hard_negatives`.
        anchor_column_name: column of the anchors, if its name does not tell; needs `positive_column_name` too.
        positive_column_name: column of the positives.
        corpus: texts to take negatives from instead of the positives: a file, or strings.
        corpus_column: column of the texts in the corpus, if it has several.
        guide: another encoder whose scores are used for the limits and the choice; the ranks are still the model's.
        cross_encoder: as `guide`, a `CrossEncoder` of sentence-transformers, as an object or by name.
        pooling: pooling of a model that records none.
        precision: precision of the model and the guide, as for `SentenceEncoder`.
        output_format: `n-tuple` (one row for each pair whose anchor has `num_negatives`) or `triplet` (one row for each
            negative of each pair).
        verbose: show progress bars on stderr.
        rules: arguments of `NegativeRules`.
    """

    def __init__(
        self,
        dataset: Any,
        model: Any = None,
        *,
        anchor_column_name: str | None = None,
        positive_column_name: str | None = None,
        corpus: str | Path | Sequence[str] | None = None,
        corpus_column: str | None = None,
        guide: Any = None,
        cross_encoder: Any = None,
        pooling: str | None = None,
        precision: str = "fp32",
        output_format: str = "n-tuple",
        verbose: bool = False,
        **rules: Any,
    ) -> None:
        if output_format not in FORMATS:
            raise InputError(f"output_format {output_format}: choose one of {', '.join(FORMATS)}")
        if guide is not None and cross_encoder is not None:
            raise InputError("a guide and a cross-encoder are given; give only one of them")
        self._started = time.perf_counter()
        self.rules, self.counts, self.verbose = NegativeRules(**rules), MiningCounts(), verbose
        names = [f"negative_{i}" for i in range(1, self.rules.num_negatives + 1)]
        self.columns = ["anchor", "positive", *(names if output_format == "n-tuple" else ["negative"])]
        self.triplets = output_format == "triplet"
        anchors, positives = _read_pairs(dataset, anchor_column_name, positive_column_name)
        searched = [] if corpus is None else [_read_corpus(corpus, corpus_column)]
        self._pairs = _Pairs(anchors, positives, searched)
        self._model = _opened(model, pooling=pooling, precision=precision)
        self._guide = None if guide is None else _opened(guide, precision=precision)
        self._cross = None if cross_encoder is None else _open_cross_encoder(cross_encoder)

    def __iter__(self) -> Iterator[Columns]:
        with tempfile.TemporaryDirectory(prefix="contrastive_st") as folder:
            documents = self._pairs.documents
            finder = _EncoderScores(self._model, documents, Path(folder, "model"), self.verbose)
            judge: _Scores = finder
            if self._guide is not None:
                judge = _EncoderScores(self._guide, documents, Path(folder, "guide"), self.verbose)
            elif self._cross is not None:
                judge = _CrossScores(self._cross, documents)
            random = np.random.default_rng(self.rules.seed)
            count = len(self._pairs.anchors)
            with tqdm(total=count, disable=not self.verbose, unit=" anchors", desc="mine", file=sys.stderr) as bar:
                for start in range(0, count, _ANCHORS):
                    block = self._pairs.block(start, min(start + _ANCHORS, count))
                    yield from self._rows(block, self._negatives(block, finder, judge, random))
                    bar.update(len(block.anchors))
        if not self.counts.rows:
            few = f"none of {count:,} anchors has {1 if self.triplets else self.rules.num_negatives} negatives"
            raise InputError(f"{few}; allow higher scores or more ranks, or give a corpus")

    def _negatives(self, block: _Block, finder: _EncoderScores, judge: _Scores, random: np.random.Generator) -> Numbers:
        """The numbers of the negatives, `[Q, num_negatives]`, padded with -1."""
        asked = finder.ask(block.anchors)
        numbers = finder.nearest(asked, self.rules.candidates, self._pairs.searched, block)
        there = numbers >= 0
        rows = np.concatenate([np.nonzero(there)[0], block.rows])
        question = asked if judge is finder else judge.ask(block.anchors)
        judged = judge.score(question, rows, np.concatenate([numbers[there], block.positives]))
        scores = np.full(numbers.shape, -np.inf, dtype=np.float32)
        scores[there] = judged[: there.sum()]
        positive = np.full(len(numbers), np.inf, dtype=np.float32)
        np.minimum.at(positive, block.rows, judged[there.sum() :])
        places = self.rules.choose(scores, positive, random)
        padded = np.concatenate([numbers, np.full((len(numbers), 1), -1)], axis=1)  # index -1 would be the last
        return np.take_along_axis(padded, places, axis=1)

    def _rows(self, block: _Block, negatives: Numbers) -> Iterator[Columns]:
        """The rows of a block of anchors; None if there are none."""
        found = (negatives >= 0).sum(axis=1)
        kept = found >= (1 if self.triplets else self.rules.num_negatives)
        pair = np.flatnonzero(kept[block.rows])  # which of the block's pairs have rows
        chosen = negatives[block.rows[pair]]
        if self.triplets:
            repeats, places = np.nonzero(chosen >= 0)
            pair, chosen = pair[repeats], chosen[repeats, places][:, None]
        counts = self.counts
        counts.anchors, counts.without = counts.anchors + len(found), counts.without + int((~kept).sum())
        counts.rows, counts.negatives = counts.rows + len(pair), counts.negatives + int(found[kept].sum())
        counts.seconds = time.perf_counter() - self._started
        if len(pair):
            given = self._pairs.given(block.places[pair])
            negative = [self._pairs.documents[column] for column in chosen.T]
            yield dict(zip(self.columns, [*given, *negative], strict=True))


# --- The input: distinct anchors and documents by number, and which of them are pairs.


def _read_pairs(dataset: Any, anchor: str | None, positive: str | None) -> tuple[_Column, _Column]:
    if (anchor is None) != (positive is None):
        raise InputError("name both columns, anchor_column_name and positive_column_name, or neither")
    wanted = None if anchor is None else [f"{anchor}=anchor", f"{positive}=positive"]
    if isinstance(dataset, datasets.Dataset):
        rows, first = dataset, dataset.select(range(min(PREVIEWED, len(dataset))))
        roles = column_roles(list(first), wanted, source="the data set")
    else:
        rows, roles = read_examples(str(dataset), wanted)
    if roles.gold or len(roles.texts) < 2:
        mend = "name two columns of text, --anchor_column_name and --positive_column_name"
        raise InputError(f"{roles.source} has {roles.words}, but mining needs anchors and their positives; {mend}")
    return _Column(rows, roles.texts[0], roles.source), _Column(rows, roles.texts[1], roles.source)


def _read_corpus(corpus: str | Path | Sequence[str], column: str | None) -> _Column:
    if not isinstance(corpus, (str, Path)):
        if not len(corpus):
            raise InputError("the corpus is empty; give texts to take negatives from")
        return _Column(datasets.Dataset.from_dict({"text": list(corpus)}), "text", "the corpus")
    rows = read_texts(str(corpus), None if column is None else [column])
    names = rows.column_names
    if len(names) > 1 and "text" not in names:
        raise InputError(f"{corpus} has several columns of text; choose one with --corpus_column: {', '.join(names)}")
    return _Column(rows, "text" if "text" in names else names[0], str(corpus))


class _Column:
    """A column of text, which may be on disk."""

    def __init__(self, rows: datasets.Dataset, name: str, source: str) -> None:
        self.rows, self.name, self.source = rows.select_columns([name]).with_format("arrow"), name, source

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, rows: Numbers) -> list[str]:
        texts: list[str] = self.rows[rows.tolist()][self.name].to_pylist()
        return texts

    def keys(self) -> NDArray[np.uint64]:
        """`[N]`, equal for texts that are the same apart from case and white space."""
        found = np.empty(len(self), dtype=np.uint64)
        start = 0
        for table in self.rows.iter(_DOCUMENTS):
            texts = table[self.name].to_pylist()
            for number, text in enumerate(texts, start):
                if not isinstance(text, str) or not text.strip():
                    raise InputError(
                        f"{self.source}, row {number + 1}: {self.name!r} is blank or not a text; remove the row"
                    )
                found[number] = _key(text)
            start += len(texts)
        return found


def _key(text: str) -> int:
    plain = " ".join(text.casefold().split()).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(plain, digest_size=8).digest(), "little")


class _Distinct:
    """The distinct texts of some columns, numbered in the order of their first occurrence; `[numbers]` gives them."""

    def __init__(self, columns: Sequence[_Column]) -> None:
        self.columns = columns
        keys, first, number = np.unique(
            np.concatenate([column.keys() for column in columns]), return_index=True, return_inverse=True
        )
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
            own = np.flatnonzero((rows >= start) & (rows < start + len(column)))
            if len(own):
                texts[own] = column[rows[own] - start]
        return list(texts)


@dataclass(frozen=True)
class _Block:
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


class _Pairs:
    """Distinct anchors, distinct documents, and the positives of each anchor.

    Only the first `searched` documents may be negatives.
    """

    def __init__(self, anchors: _Column, positives: _Column, corpus: Sequence[_Column]) -> None:
        self.columns = anchors, positives
        self.anchors, self.documents = _Distinct([anchors]), _Distinct([*corpus, positives])
        number = self.documents.number
        self.searched = int(number[: len(corpus[0]) if corpus else None].max()) + 1
        count = len(self.documents)
        self._pairs, self._rows = np.unique(self.anchors.number * count + number[-len(positives) :], return_index=True)
        _, anchor, itself = np.intersect1d(
            self.anchors.keys, self.documents.keys, assume_unique=True, return_indices=True
        )
        self._barred = np.union1d(self._pairs, anchor * count + itself)

    def block(self, start: int, stop: int) -> _Block:
        """The anchors from `start` to before `stop`."""
        texts, barred = self.anchors[np.arange(start, stop)], self._of(self._barred, start, stop)
        return _Block(texts, *self._of(self._pairs, start, stop), barred[:2])

    def given(self, places: Numbers) -> tuple[list[str], list[str]]:
        """Anchors and positives of some pairs, as given."""
        anchors, positives = self.columns
        return anchors[self._rows[places]], positives[self._rows[places]]

    def _of(self, pairs: Numbers, start: int, stop: int) -> tuple[Numbers, Numbers, Numbers]:
        """For these anchors: the rows counted from the first one, the documents, and their positions in `pairs`."""
        count = len(self.documents)
        first, last = np.searchsorted(pairs, [start * count, stop * count])
        return pairs[first:last] // count - start, pairs[first:last] % count, np.arange(first, last)


# --- Scores of anchors and documents: by an encoder, which also searches, or by a cross-encoder.


class _Scores(Protocol):
    def ask(self, anchors: list[str]) -> Any:
        """The representation of these anchors that `score` takes."""

    def score(self, asked: Any, rows: Numbers, numbers: Numbers) -> Vectors:
        """Scores `[m]` of pairs, each given by the row of its anchor and the number of its document."""


class _EncoderScores:
    """Cosines by one encoder; the unit vectors of the documents are in a file, in float16."""

    def __init__(self, encoder: Encoder, documents: _Distinct, path: Path, verbose: bool) -> None:
        self.encoder, self.path, self.dim = encoder, path, 0
        total = len(documents)
        with (
            tqdm(total=total, disable=not verbose, unit=" texts", desc=encoder.name, file=sys.stderr) as bar,
            open(path, "wb") as file,
        ):
            for start in range(0, total, _DOCUMENTS):
                texts = documents[np.arange(start, min(start + _DOCUMENTS, total))]
                vectors = self._encoded(texts, "encode_document")
                self.dim = vectors.shape[1]
                vectors.astype(np.float16).tofile(file)
                bar.update(len(texts))

    def ask(self, anchors: list[str]) -> Vectors:
        return self._encoded(anchors, "encode_query")

    def nearest(self, asked: Vectors, k: int, searched: int, block: _Block) -> Numbers:
        """The k nearest of the first `searched` documents that are not barred, `[Q, k]`, padded with -1."""
        rows, numbers = block.barred
        best = top_k(np.empty((len(asked), 0), dtype=np.float32), k)
        for start in range(0, searched, _DOCUMENTS):
            stop = min(start + _DOCUMENTS, searched)
            scores = asked @ self._mapped(start, stop).astype(np.float32).T
            here = (numbers >= start) & (numbers < stop)
            scores[rows[here], numbers[here] - start] = -np.inf
            best = top_k(scores, k, best, first=start)
        return np.where(best[0] > -np.inf, best[1], -1)

    def score(self, asked: Vectors, rows: Numbers, numbers: Numbers) -> Vectors:
        found = np.empty(len(rows), dtype=np.float32)
        for start in range(0, len(rows), _PAIRS):
            part = slice(start, start + _PAIRS)
            vectors = self._mapped()[numbers[part]].astype(np.float32)
            found[part] = np.einsum("nd,nd->n", asked[rows[part]], vectors)
        return found

    def _mapped(self, start: int = 0, stop: int | None = None) -> NDArray[np.float16]:
        """Rows of the file, mapped for one use: mapped pages that were read count as memory of the process."""
        width = 2 * self.dim
        stop = self.path.stat().st_size // width if stop is None else stop
        return np.memmap(self.path, np.float16, "r", offset=start * width, shape=(stop - start, self.dim))

    def _encoded(self, texts: list[str], how: str) -> Vectors:
        encode: Callable[[list[str]], Any] = getattr(self.encoder, how)
        vectors = unit_vectors(encode(texts), np.float32)
        if not np.isfinite(vectors).all():
            raise InputError(f"{self.encoder.name} returns NaN or infinite vectors; did training diverge?")
        return vectors


class _CrossScores:
    """Scores by a model that reads both texts at once."""

    def __init__(self, model: Any, documents: _Distinct) -> None:
        self.model, self.documents = model, documents

    def ask(self, anchors: list[str]) -> list[str]:
        return anchors

    def score(self, asked: list[str], rows: Numbers, numbers: Numbers) -> Vectors:
        pairs = list(zip((asked[row] for row in rows), self.documents[numbers], strict=True))
        scores = np.asarray(self.model.predict(pairs, show_progress_bar=False), dtype=np.float32)
        if scores.shape != (len(pairs),):
            raise InputError(
                f"the cross-encoder returns {scores.shape[1:]} scores per pair; use one that returns a single score"
            )
        return scores


def _opened(model: Any, **options: Any) -> Encoder:
    if model is None or isinstance(model, (str, Path)):
        return open_encoder(model, **options)
    from contrastive_st.models.protocol import as_encoder

    return as_encoder(model, **options)


def _open_cross_encoder(model: Any) -> Any:
    if hasattr(model, "predict"):
        return model
    try:
        from sentence_transformers import CrossEncoder
    except ImportError:
        raise InputError("a cross-encoder needs sentence-transformers; pip install sentence-transformers") from None
    folder = local_folder(model)
    check_weights(folder, model)
    try:
        return CrossEncoder(str(folder), trust_remote_code=False)
    except Exception as error:  # the file may contain anything, so any exception is possible
        raise InputError(f"cannot open the cross-encoder {model}: {first_line(error)}") from error


# --- Writers of a table, row by row: a context manager that yields a function which adds rows.

Write = Callable[[Columns], object]


@contextmanager
def _parquet(path: Path, names: Sequence[str]) -> Iterator[Write]:
    with pq.ParquetWriter(path, pa.schema([(name, pa.string()) for name in names])) as writer:
        yield lambda columns: writer.write_table(pa.table(columns))


@contextmanager
def _jsonl(path: Path, names: Sequence[str]) -> Iterator[Write]:
    with open(path, "w", encoding="utf-8") as file:
        yield lambda columns: file.writelines(
            json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False) + "\n"
            for row in zip(*columns.values(), strict=True)
        )


@contextmanager
def _csv(path: Path, names: Sequence[str]) -> Iterator[Write]:
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(names)
        yield lambda columns: writer.writerows(zip(*columns.values(), strict=True))


_WRITERS = {".jsonl": _jsonl, ".csv": _csv, ".parquet": _parquet}
