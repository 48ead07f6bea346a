"""The STS benchmark: Spearman correlation of cosine similarities with human scores."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from contrastive_st.errors import InputError

DATA_VARIABLE = "CONTRASTIVE_ST_DATA"


class ScoredPair(NamedTuple):
    """Two sentences and how similar people find them, 0 to 5."""

    first: str
    second: str
    score: float


def find_stsb(split: str = "dev") -> Path | None:
    """SentEval's STS-B file below `$CONTRASTIVE_ST_DATA`, or None where it is not at hand."""
    root = os.environ.get(DATA_VARIABLE)
    path = Path(root or "", "senteval", "STS", "STSBenchmark", f"sts-{split}.csv")
    return path if root and path.is_file() else None


def read_stsb(path: str | Path) -> list[ScoredPair]:
    """Read SentEval's `sts-*.csv`: tab-separated, no header, no quoting; score and texts in columns 5 to 7."""
    pairs = []
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            cells = line.rstrip("\r\n").split("\t")
            if len(cells) < 7:
                raise InputError(
                    f"{path}, line {number}: {len(cells)} columns, and STS-B has 7 or more; is it tab-separated?"
                )
            pairs.append(ScoredPair(cells[5], cells[6], float(cells[4])))
    return pairs


def sts_spearman(encode: Callable[[Sequence[str]], NDArray[np.floating]], pairs: Sequence[ScoredPair]) -> float:
    """Spearman's rho, -1 to 1, between cosine similarities and scores; each distinct sentence is encoded once.

    Raises:
        InputError: the model returns NaN or infinite embeddings.
    """
    texts = list(dict.fromkeys(text for pair in pairs for text in pair[:2]))
    place = {text: i for i, text in enumerate(texts)}
    vectors = np.asarray(encode(texts), dtype=np.float64)
    if not np.isfinite(vectors).all():
        raise InputError("the model returns NaN or infinite embeddings, so there is nothing to correlate")
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    first = vectors[[place[pair.first] for pair in pairs]]
    second = vectors[[place[pair.second] for pair in pairs]]
    return float(spearmanr((first * second).sum(1), [pair.score for pair in pairs]).statistic)
