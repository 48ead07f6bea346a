"""Mining of hard negatives: an exact search for the texts nearest to each anchor that are not its positives.

Nearest neighbours of a trained encoder as negatives: Xiong et al. 2021 (ANCE), https://arxiv.org/abs/2007.00808. Limits
relative to the positive's score: Moreira et al. 2024 (NV-Retriever), https://arxiv.org/abs/2407.15831. Scores of a
cross-encoder: Qu et al. 2021 (RocketQA), https://arxiv.org/abs/2010.08191.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from tqdm.auto import tqdm

from contrastive_st.data.roles import SCORES
from contrastive_st.data.table_writers import FORMATS, Columns, table_writer
from contrastive_st.device import peak_resident
from contrastive_st.errors import InputError
from contrastive_st.files.writing import atomic_write, check_target
from contrastive_st.models.protocol import Encoder, as_encoder, with_options
from contrastive_st.search.mining.known_pairs import Block, Distinct, KnownPairs, Numbers, pair_columns, read_corpus
from contrastive_st.search.mining.negative_rules import MiningOptions
from contrastive_st.search.reranking import PairScorer, open_cross_encoder
from contrastive_st.vectors import check_finite, top_k_in_blocks, unit_vectors

DOCUMENTS = 16_384  # documents that are encoded at a time, and most that anchors are compared with
PAIRS = 8192  # candidates whose vectors are loaded at a time, to score them
Vectors = NDArray[np.float32]


class EncoderScores:
    """Cosines by one encoder; the unit vectors of the documents are in a file, in float16.

    `ask` gives the representation of anchors that `score` takes; that scores pairs `[m]`, each given by the row of its
    anchor and the number of its document.
    """

    def __init__(self, encoder: Encoder, documents: Distinct, path: Path, verbose: bool) -> None:
        self.encoder, self.path, self.dim = encoder, path, 0
        total, shown = len(documents), {"disable": not verbose, "unit": " texts", "desc": encoder.name}
        with tqdm(total=total, **shown) as bar, open(path, "wb") as file:
            for start in range(0, total, DOCUMENTS):
                texts = documents[np.arange(start, min(start + DOCUMENTS, total))]
                vectors = self._encoded(texts, "encode_document")
                self.dim = vectors.shape[1]
                vectors.astype(np.float16).tofile(file)
                bar.update(len(texts))

    def ask(self, anchors: list[str]) -> Vectors:
        """The vectors `[Q, d]` of anchors."""
        return self._encoded(anchors, "encode_query")

    def nearest(self, asked: Vectors, k: int, searched: int, block: Block) -> Numbers:
        """The k nearest of the first `searched` documents that are not barred, `[Q, k]`, padded with -1."""
        rows, numbers = block.barred

        def compare(rows_part: slice, part: slice) -> Vectors:
            scores: Vectors = asked[rows_part] @ self._mapped(part.start, part.stop).astype(np.float32).T
            here = (rows >= rows_part.start) & (rows < rows_part.stop) & (numbers >= part.start) & (numbers < part.stop)
            scores[rows[here] - rows_part.start, numbers[here] - part.start] = -np.inf
            return scores

        best = top_k_in_blocks(compare, len(asked), searched, k, DOCUMENTS)
        return np.where(best[0] > -np.inf, best[1], -1)

    def score(self, asked: Vectors, rows: Numbers, numbers: Numbers) -> Vectors:
        """The cosines `[m]` of pairs: the row of an anchor and the number of a document each."""
        result = np.empty(len(rows), dtype=np.float32)
        for start in range(0, len(rows), PAIRS):
            part = slice(start, start + PAIRS)
            vectors = self._mapped()[numbers[part]].astype(np.float32)
            result[part] = np.einsum("nd,nd->n", asked[rows[part]], vectors)
        return result

    def _mapped(self, start: int = 0, stop: int | None = None) -> NDArray[np.float16]:
        """Rows of the file, mapped for one use: mapped pages that were read count as memory of the process."""
        width = 2 * self.dim
        stop = self.path.stat().st_size // width if stop is None else stop
        return np.memmap(self.path, np.float16, "r", offset=start * width, shape=(stop - start, self.dim))

    def _encoded(self, texts: list[str], how: str) -> Vectors:
        return check_finite(unit_vectors(getattr(self.encoder, how)(texts), np.float32), self.encoder.name)


class CrossScores:
    """Scores by a model that reads both texts at once."""

    def __init__(self, model: PairScorer, documents: Distinct) -> None:
        self.model, self.documents = model, documents

    def score(self, anchors: list[str], rows: Numbers, numbers: Numbers) -> Vectors:
        """The scores `[m]` of pairs: the row of an anchor and the number of a document each."""
        pairs = list(zip((anchors[row] for row in rows), self.documents[numbers], strict=True))
        scores = np.asarray(self.model.predict(pairs, show_progress_bar=False), dtype=np.float32)
        if scores.shape != (len(pairs),):
            raise InputError(
                f"the cross-encoder returns {scores.shape[1:]} scores per pair; use one that returns a single score"
            )
        return scores


ANCHORS = 8192  # anchors that are searched for at a time: each thread has about a thousand, one after another
#: The columns that are not texts
_TYPES = {
    "label": pa.int64(), "score": pa.float64(), "labels": pa.list_(pa.int64()), "scores": pa.list_(pa.float64()),
}  # fmt: skip


@dataclass
class MiningCounts:
    """Counts of the mining so far.

    Args:
        anchors: distinct anchors that were searched.
        rows: rows written.
        negatives: negatives in these rows; a negative in the rows of several positives of an anchor counts once.
        without: anchors without a row, because they have no negative or, for n-tuples, too few.
        seconds: seconds since the start.
        columns: the columns of the anchors and of the positives.
        left_out: the other columns, each with the reason why it is not used.
    """

    anchors: int = 0
    rows: int = 0
    negatives: int = 0
    without: int = 0
    seconds: float = 0.0
    columns: tuple[str, str] = ("anchor", "positive")
    left_out: dict[str, str] = field(default_factory=dict)

    @property
    def shown_columns(self) -> str:
        """Which columns were taken, for messages."""
        others = ", ".join(f"{name!r} ({why})" for name, why in self.left_out.items())
        unused = f", not used: {others}" if others else ""
        return "anchors: column {}, positives: column {}{}".format(*self.columns, unused)

    def __str__(self) -> str:
        result = f"{self.negatives:,} negatives of {self.anchors:,} anchors in {self.rows:,} rows"
        cost = f"{self.seconds:,.1f} s, peak memory {peak_resident() / 2**30:.2f} GiB"
        return f"{result}; {self.without:,} anchors with too few are left out; {self.shown_columns}; {cost}"


def mine_hard_negatives(dataset: object, model: object = None, **options: Any) -> datasets.Dataset:
    """Mine hard negatives for pairs, in memory: the texts nearest to each anchor that are not its positives.

    Every anchor is compared with every document. A text that equals the anchor or one of its positives, apart from case
    and white space, is never its negative, and a row never has a negative twice. Memory is that of a block plus 50
    bytes per text; the vectors are in a temporary file as float16 (2 d bytes per text, cosines to about 1e-4).

    Args:
        dataset: pairs: a file, a folder, a data set of the Hub, or a `datasets.Dataset`. The names of its columns tell
            which is the anchor and which the positive.
        model: the encoder: a model that `SentenceEncoder` opens, or a function from texts to vectors. Recorded prompts
            named `query` and `document` are put before anchors and documents.
        options: `verbose`, and the fields of `MiningOptions`.

    Returns:
        Columns `anchor`, `positive` and `negative_1`, `negative_2`, ..., or those of another `output_format`. The rows
        of an anchor are adjacent. Scores are those of the cross-encoder or the guide, if there is one, or the model.

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
    dataset: object, output: str | Path, model: object = None, *, overwrite: bool = False, **options: Any
) -> MiningCounts:
    """Mine hard negatives into a .jsonl, .csv or .parquet file, block by block.

    The file appears when it is complete.

    Args:
        dataset: as for `mine_hard_negatives`.
        output: the file.
        model: as for `mine_hard_negatives`.
        overwrite: replace a file that exists.
        options: as for `mine_hard_negatives`.

    Returns:
        How many anchors, negatives and rows there are.

    Raises:
        InputError: as for `mine_hard_negatives`; or the file exists already or cannot be written.
    """
    check_target(output, overwrite, formats=FORMATS)
    mined = HardNegatives(dataset, model, **options)
    with atomic_write(output, overwrite) as path, table_writer(path, mined.columns, mined.types) as write:
        for columns in mined:
            write(columns)
    return mined.counts


class HardNegatives:
    """An iterator over pairs with hard negatives, in blocks, each a dictionary of columns.

    Args:
        dataset, model: as for `mine_hard_negatives`.
        options: the options; by default made of `settings`.
        verbose: show progress bars on stderr.
        settings: fields of `MiningOptions`.
    """

    def __init__(
        self,
        dataset: object,
        model: object = None,
        options: MiningOptions | None = None,
        *,
        verbose: bool = False,
        **settings: Any,
    ) -> None:
        rules = MiningOptions(**settings) if options is None else options
        self._started = time.perf_counter()
        self.rules, self.counts, self.verbose = rules, MiningCounts(), verbose
        others = {
            "n-tuple": [f"negative_{i}" for i in range(1, rules.num_negatives + 1)], "triplet": ["negative"],
            "labeled-pair": ["score" if rules.output_scores else "label"],
            "labeled-list": [] if rules.output_scores else ["labels"],
        }  # fmt: skip
        self._least = rules.num_negatives if rules.output_format == "n-tuple" else 1  # of an anchor that has rows
        self.columns = ["anchor", "positive", *others[rules.output_format]]
        self.columns += [SCORES] if rules.output_scores and rules.output_format != "labeled-pair" else []
        self.types = _TYPES | ({"positive": pa.list_(pa.string())} if rules.output_format == "labeled-list" else {})
        named = rules.anchor_column_name, rules.positive_column_name
        (anchors, positives), self.counts.left_out = pair_columns(dataset, *named)
        self.counts.columns = anchors.name, positives.name
        searched = [] if rules.corpus is None else [read_corpus(rules.corpus, rules.corpus_column)]
        self._pairs = KnownPairs(anchors, positives, searched, rules.include_positives)

        def opened(name: object, **more: str | None) -> Encoder:
            return with_options(
                as_encoder(name, precision=rules.precision, **more), batch_size=rules.batch_size,
                query={"prompt": rules.query_prompt, "prompt_name": rules.query_prompt_name},
                document={"prompt": rules.corpus_prompt, "prompt_name": rules.corpus_prompt_name},
            )  # fmt: skip

        self._model = opened(model, pooling=rules.pooling)
        self._guide = None if rules.guide is None else opened(rules.guide)
        self._cross = None if rules.cross_encoder is None else open_cross_encoder(rules.cross_encoder)

    def __iter__(self) -> Iterator[Columns]:
        with tempfile.TemporaryDirectory(prefix="contrastive_st") as folder:
            documents = self._pairs.documents
            finder = EncoderScores(self._model, documents, Path(folder, "model"), self.verbose)
            scorer: EncoderScores | CrossScores = finder
            if self._guide is not None:
                scorer = EncoderScores(self._guide, documents, Path(folder, "guide"), self.verbose)
            elif self._cross is not None:
                scorer = CrossScores(self._cross, documents)
            random = np.random.default_rng(self.rules.seed)
            count = len(self._pairs.anchors)
            with tqdm(total=count, disable=not self.verbose, unit=" anchors", desc="mine") as bar:
                for start in range(0, count, ANCHORS):
                    block = self._pairs.block(start, min(start + ANCHORS, count))
                    yield from self._rows(block, *self._negatives(block, finder, scorer, random))
                    bar.update(len(block.anchors))
        if not self.counts.rows:
            few = f"none of {count:,} anchors has {self._least} negatives ({self.counts.shown_columns})"
            raise InputError(f"{few}; allow higher scores or more ranks, or give a corpus")

    def _negatives(
        self, block: Block, finder: EncoderScores, scorer: EncoderScores | CrossScores, random: np.random.Generator
    ) -> tuple[Numbers, Vectors, Vectors]:
        """The numbers of the negatives, `[Q, num_negatives]`, padded with -1; their scores and those of the pairs."""
        asked = finder.ask(block.anchors)
        numbers = finder.nearest(asked, self.rules.candidates, self._pairs.searched, block)
        there = numbers >= 0
        rows = np.concatenate([np.nonzero(there)[0], block.rows])
        pairs = rows, np.concatenate([numbers[there], block.positives])
        if isinstance(scorer, CrossScores):
            scored = scorer.score(block.anchors, *pairs)
        else:
            scored = scorer.score(asked if scorer is finder else scorer.ask(block.anchors), *pairs)
        scores = np.full(numbers.shape, -np.inf, dtype=np.float32)
        scores[there] = scored[: there.sum()]
        positive = np.full(len(numbers), np.inf, dtype=np.float32)
        np.minimum.at(positive, block.rows, scored[there.sum() :])
        places = self.rules.choose(scores, positive, random)
        chosen, result = (np.take_along_axis(column, places, axis=1) for column in (numbers, scores))
        return np.where(places < 0, -1, chosen), np.where(places < 0, 0, result), scored[there.sum() :]

    def _rows(self, block: Block, negatives: Numbers, scores: Vectors, positive: Vectors) -> Iterator[Columns]:
        """The rows of a block of anchors, if there are any; arguments as `_negatives` returns them."""
        result = (negatives >= 0).sum(axis=1)
        kept = result >= self._least
        pair = np.flatnonzero(kept[block.rows])  # which of the block's pairs have rows
        counts = self.counts
        counts.anchors, counts.without = counts.anchors + len(result), counts.without + int((~kept).sum())
        counts.negatives += int(result[kept].sum())
        counts.seconds = time.perf_counter() - self._started
        if not len(pair):
            return
        rows = block.rows[pair]
        scored = np.concatenate([positive[pair, None], scores[rows]], axis=1).astype(np.float64).round(6)
        anchors, positives = (np.array(column, dtype=object) for column in self._pairs.texts_of(block.places[pair]))
        chosen, form = negatives[rows], self.rules.output_format
        columns: list[Iterable[object]]
        if form == "n-tuple":
            columns = [anchors, positives, *(self._pairs.documents[column] for column in chosen.T), scored.tolist()]
        else:
            if form == "labeled-pair":  # the negatives of an anchor once, after its last positive
                chosen = np.where(np.append(rows[1:] != rows[:-1], True)[:, None], chosen, -1)
            repeats, places = np.nonzero(chosen >= 0)
            texts, their = self._pairs.documents[chosen[repeats, places]], scored[repeats, places + 1]
            # of the labeled formats: the positive of each pair, then its negatives
            order = np.argsort(np.concatenate([np.arange(len(rows)), repeats]), kind="stable")
            labels = np.repeat([1, 0], [len(rows), len(repeats)])[order]
            values = (np.concatenate([scored[:, 0], their])[order] if self.rules.output_scores else labels).tolist()
            documents = np.concatenate([positives, np.array(texts, dtype=object)])[order].tolist()
            starts = np.flatnonzero(labels)
            spans = [slice(a, b) for a, b in zip(starts, [*starts[1:], len(labels)], strict=True)]
            columns = {
                "triplet": [anchors[repeats], positives[repeats], texts, np.c_[scored[repeats, 0], their].tolist()],
                "labeled-pair": [np.concatenate([anchors, anchors[repeats]])[order], documents, values],
                "labeled-list": [anchors, [documents[span] for span in spans], [values[span] for span in spans]],
            }[form]
        lists = [list(column) for column in columns]
        counts.rows += len(lists[0])
        yield dict(zip(self.columns, lists, strict=False))  # scores are last, if they are wanted
