"""Mining of hard negatives: an exact search for the texts nearest to each anchor that are not its positives.

Nearest neighbours of a trained encoder as negatives: Xiong et al. 2021 (ANCE), https://arxiv.org/abs/2007.00808. Limits
relative to the positive's score: Moreira et al. 2024 (NV-Retriever), https://arxiv.org/abs/2407.15831. Scores of a
cross-encoder: Qu et al. 2021 (RocketQA), https://arxiv.org/abs/2010.08191.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from tqdm.auto import tqdm

from contrastive_st.data.roles import SCORES
from contrastive_st.data.table_writers import FORMATS, Columns, table_writer
from contrastive_st.errors import InputError
from contrastive_st.files.writing import atomic_write, check_target
from contrastive_st.memory import peak_resident
from contrastive_st.models.protocol import as_encoder
from contrastive_st.search.mining.known_pairs import Block, KnownPairs, pair_columns, read_corpus
from contrastive_st.search.mining.negative_rules import NegativeRules
from contrastive_st.search.mining.scores import CrossScores, EncoderScores, Scores, open_cross_encoder

ANCHORS = 8192  # anchors that are searched for at a time: each thread has some thousand in turn
ROWS = ("n-tuple", "triplet")
Numbers = NDArray[np.int64]
Vectors = NDArray[np.float32]


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
        rows of an anchor are adjacent. With `output_scores` a column `scores` of lists: of the positive, then of each
        negative, by the cross-encoder or the guide if there is one, else by the model.

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
    if Path(output).suffix not in FORMATS:
        raise InputError(f"--output {output}: write one of {', '.join(FORMATS)}")
    check_target(output, overwrite)
    mined = HardNegatives(dataset, model, **options)
    with atomic_write(output, overwrite) as path, table_writer(path, mined.columns, [SCORES]) as write:
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
        output_scores: add the scores by which the negatives were chosen.
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
        output_scores: bool = False,
        verbose: bool = False,
        **rules: Any,
    ) -> None:
        if output_format not in ROWS:
            raise InputError(f"output_format {output_format}: choose one of {', '.join(ROWS)}")
        if guide is not None and cross_encoder is not None:
            raise InputError("a guide and a cross-encoder are given; give only one of them")
        self._started = time.perf_counter()
        self.rules, self.counts, self.verbose = NegativeRules(**rules), MiningCounts(), verbose
        names = [f"negative_{i}" for i in range(1, self.rules.num_negatives + 1)]
        self.columns = ["anchor", "positive", *(names if output_format == "n-tuple" else ["negative"])]
        self.columns += [SCORES] if output_scores else []
        self.triplets, self.scored = output_format == "triplet", output_scores
        anchors, positives = pair_columns(dataset, anchor_column_name, positive_column_name)
        searched = [] if corpus is None else [read_corpus(corpus, corpus_column)]
        self._pairs = KnownPairs(anchors, positives, searched)
        self._model = as_encoder(model, pooling=pooling, precision=precision)
        self._guide = None if guide is None else as_encoder(guide, precision=precision)
        self._cross = None if cross_encoder is None else open_cross_encoder(cross_encoder)

    def __iter__(self) -> Iterator[Columns]:
        with tempfile.TemporaryDirectory(prefix="contrastive_st") as folder:
            documents = self._pairs.documents
            finder = EncoderScores(self._model, documents, Path(folder, "model"), self.verbose)
            judge: Scores = finder
            if self._guide is not None:
                judge = EncoderScores(self._guide, documents, Path(folder, "guide"), self.verbose)
            elif self._cross is not None:
                judge = CrossScores(self._cross, documents)
            random = np.random.default_rng(self.rules.seed)
            count = len(self._pairs.anchors)
            with tqdm(total=count, disable=not self.verbose, unit=" anchors", desc="mine", file=sys.stderr) as bar:
                for start in range(0, count, ANCHORS):
                    block = self._pairs.block(start, min(start + ANCHORS, count))
                    yield from self._rows(block, *self._negatives(block, finder, judge, random))
                    bar.update(len(block.anchors))
        if not self.counts.rows:
            few = f"none of {count:,} anchors has {1 if self.triplets else self.rules.num_negatives} negatives"
            raise InputError(f"{few}; allow higher scores or more ranks, or give a corpus")

    def _negatives(
        self, block: Block, finder: EncoderScores, judge: Scores, random: np.random.Generator
    ) -> tuple[Numbers, Vectors, Vectors]:
        """The numbers of the negatives, `[Q, num_negatives]`, padded with -1; their scores and those of the pairs."""
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
        # index -1 is the last
        padded = np.pad(numbers, ((0, 0), (0, 1)), constant_values=-1)
        padded_scores = np.pad(scores, ((0, 0), (0, 1)))
        chosen, found = np.take_along_axis(padded, places, axis=1), np.take_along_axis(padded_scores, places, axis=1)
        return chosen, found, judged[there.sum() :]

    def _rows(self, block: Block, negatives: Numbers, scores: Vectors, positive: Vectors) -> Iterator[Columns]:
        """The rows of a block of anchors, if there are any; arguments as `_negatives` returns them."""
        found = (negatives >= 0).sum(axis=1)
        kept = found >= (1 if self.triplets else self.rules.num_negatives)
        pair = np.flatnonzero(kept[block.rows])  # which of the block's pairs have rows
        chosen, scores = negatives[block.rows[pair]], scores[block.rows[pair]]
        if self.triplets:
            repeats, places = np.nonzero(chosen >= 0)
            pair, chosen, scores = pair[repeats], chosen[repeats, places][:, None], scores[repeats, places][:, None]
        counts = self.counts
        counts.anchors, counts.without = counts.anchors + len(found), counts.without + int((~kept).sum())
        counts.rows, counts.negatives = counts.rows + len(pair), counts.negatives + int(found[kept].sum())
        counts.seconds = time.perf_counter() - self._started
        if len(pair):
            given = self._pairs.given(block.places[pair])
            negative = [self._pairs.documents[column] for column in chosen.T]
            judged = np.concatenate([positive[pair, None], scores], axis=1).astype(np.float64).round(6)
            columns = [*given, *negative, *([judged.tolist()] if self.scored else [])]
            yield dict(zip(self.columns, columns, strict=True))
