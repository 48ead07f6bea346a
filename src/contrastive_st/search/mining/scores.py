"""Scores of anchors and documents: by an encoder, which also searches, or by a cross-encoder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tqdm.auto import tqdm

from contrastive_st.errors import InputError
from contrastive_st.models.protocol import Encoder
from contrastive_st.search.mining.known_pairs import Block, Distinct, Numbers
from contrastive_st.search.reranking import PairScorer
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
