"""`NegativeRules`: which of the texts near to an anchor become its negatives; and the other options of mining."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from contrastive_st.commands import POOLING_HELP
from contrastive_st.device import MODEL_PRECISIONS
from contrastive_st.options import Count, CountOrZero, Finite, Options, option

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class NegativeRules(Options):
    """Rules that choose the negatives of an anchor; the names are those of sentence-transformers.

    Raises:
        InputError: a number is out of range.

    Example:
        >>> rules = NegativeRules(num_negatives=2, relative_margin=0.1)
        >>> import numpy as np
        >>> rules.choose(np.array([[0.95, 0.8, 0.6, 0.5]]), np.array([0.9]), np.random.default_rng(0)).tolist()
        [[1, 2]]
    """

    range_min: CountOrZero = option("skip this many of the nearest texts, not counting the positives", default=0)
    range_max: int | None = option(
        "number of nearest texts to consider, including those that range_min skips (default: range_min + 10 x "
        "num_negatives)"
    )
    num_negatives: Count = option("number of negatives per anchor", default=3)
    max_score: Finite | None = option("highest score of a negative")
    min_score: Finite | None = option("lowest score of a negative", group="negatives")
    absolute_margin: Finite | None = option("a negative must score at least this much less than the positive")
    relative_margin: Finite | None = option(
        "like absolute_margin, but as a fraction of the positive's score: with 0.05 a negative may score at most 95% "
        "of it"
    )
    sampling_strategy: Literal["top", "random"] = option(
        "which of the candidates within these limits to take; top: those with the highest scores; random: a random "
        "choice",
        default="top",
    )
    seed: CountOrZero = option("seed of random sampling", default=0, group="negatives")

    def conflicts(self) -> Iterator[str]:
        """Yield a range of ranks that is too small."""
        if (least := self.range_min + self.num_negatives) > self.candidates:
            yield (
                f"range_max {self.range_max}: ranks {self.range_min} to {self.range_max} have fewer than "
                f"{self.num_negatives} negatives; give {least} or more"
            )

    @property
    def candidates(self) -> int:
        """The number of nearest documents that are considered."""
        return self.range_min + 10 * self.num_negatives if self.range_max is None else self.range_max

    def choose(
        self, scores: NDArray[np.floating], positive: NDArray[np.floating], random: np.random.Generator
    ) -> NDArray[np.int64]:
        """Choose the negatives: positions among the candidates of each anchor, highest score first, padded with -1.

        Args:
            scores: scores `[Q, k]` of the candidates by rank; -inf if there is no candidate.
            positive: scores `[Q]` of the anchors' positives; the lowest one if there are several.
            random: the generator for `random`.

        Returns:
            `[Q, num_negatives]`.
        """
        import numpy as np  # imported late: the command line reads the options of every command

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
        result = np.take_along_axis(taken, falling, axis=1) > -np.inf
        places[:, : order.shape[1]] = np.where(result, np.take_along_axis(order, falling, axis=1), -1)
        return places


@dataclass(frozen=True)
class MiningOptions(NegativeRules):
    """Options of mining: the rules, the columns and models, and the rows that are written.

    Raises:
        InputError: a number is out of range, or two options exclude each other.
    """

    anchor_column_name: str | None = option("column of the anchors, if its name does not tell; needs both columns")
    positive_column_name: str | None = option("column of the positives")
    corpus: Any = option("texts to take negatives from: a file (in Python also a list); by default the positives")
    corpus_column: str | None = option("column of the corpus, if it has several columns of text")
    guide: Any = option(
        "second encoder, whose scores replace those of --model in the score limits, the margins and the sampling",
        metavar="MODEL",
    )
    cross_encoder: Any = option("like --guide, but a cross-encoder with a single score", metavar="MODEL")
    pooling: str | None = option(POOLING_HELP)
    precision: str = option("precision of the model and the guide", default="fp32", choices=MODEL_PRECISIONS)
    query_prompt: str | None = option("prompt of the anchors (default: as the model records)", metavar="TEXT")
    query_prompt_name: str | None = option("name of the recorded prompt to use for the anchors", metavar="NAME")
    corpus_prompt: str | None = option("prompt of the documents (default: as the model records)", metavar="TEXT")
    corpus_prompt_name: str | None = option("name of the recorded prompt to use for the documents", metavar="NAME")
    batch_size: Count | None = option("maximum number of texts that a model encodes at a time")
    output_format: Literal["n-tuple", "triplet", "labeled-pair", "labeled-list"] = option(
        "n-tuple: one row per pair, with num_negatives negatives; triplet: one row per negative; labeled-pair: one "
        "row per document, with label 1 or 0; labeled-list: one row per pair, with lists of documents and labels",
        default="n-tuple",
    )  # fmt: skip
    output_scores: bool = option(
        "add the scores of the positive and the negatives, for distillation; in the labeled formats, scores replace "
        "the labels", default=False,
    )  # fmt: skip
    include_positives: bool = option(
        "the columns negative_1, ... may hold positives of the anchor too: they are then the nearest texts by rank, as "
        "candidates to train a reranker on; only with --output_format n-tuple",
        default=False,
    )

    def conflicts(self) -> Iterator[str]:
        """Yield options that exclude each other."""
        yield from super().conflicts()
        if self.include_positives and self.output_format != "n-tuple":
            yield f"include_positives works with the output_format n-tuple only, not with {self.output_format}"
        if self.guide is not None and self.cross_encoder is not None:
            yield "a guide and a cross-encoder are given; give only one of them"
        if self.corpus is None and self.corpus_column is not None:
            yield f"corpus_column {self.corpus_column} is for a corpus, but none is given; give it too"
        if (self.anchor_column_name is None) != (self.positive_column_name is None):
            yield "name both columns, anchor_column_name and positive_column_name, or neither"
