"""Pairs of labelled texts, of the same and of different classes, as setfit draws them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import Dataset

from contrastive_st.classification.labels import Labels
from contrastive_st.errors import InputError

_MOST_TEXTS = 6000  # their 18 million pairs are more than anybody trains on


def class_pairs(
    labels: Labels, strategy: str = "oversampling", seed: int = 0
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """All pairs of N texts, with the score 1 for pairs of a common class and 0 for the others, in random order.

    A text is also paired with itself: dropout makes two views of it (Tunstall et al. 2022, https://arxiv.org/abs/2209.11055,
    and setfit's `ContrastiveDataset`).

    Args:
        labels: the class of each text `[N]`, or `[N, K]` of 0 and 1, where two texts are alike if they share a class.
        strategy: `oversampling` repeats pairs of the rarer kind until both are equally frequent;
            `undersampling` leaves out pairs of the more frequent one; `unique` has each pair once.
        seed: seed of the order.

    Returns:
        The positions of the two texts `[P, 2]`, and the scores `[P]`.

    Raises:
        InputError: no pair is of different classes, or more than 6,000 texts.

    Example:
        >>> pairs, scores = class_pairs(np.array([0, 0, 1]), "unique")
        >>> sorted(zip(map(tuple, pairs.tolist()), scores.tolist()))[:3]
        [((0, 0), 1.0), ((0, 1), 1.0), ((0, 2), 0.0)]
        >>> float(class_pairs(np.array([0, 0, 1]))[1].mean())
        0.5
    """
    if len(labels) > _MOST_TEXTS:
        raise InputError(
            f"{len(labels):,} texts have too many pairs; train on {_MOST_TEXTS:,} of them, or without pairs"
        )
    random = np.random.default_rng(seed)
    first, second = np.triu_indices(len(labels))
    alike = (labels[first] == labels[second]) if labels.ndim == 1 else (labels[first] & labels[second]).any(1)
    alike |= first == second  # also a text without labels
    same, different = (random.permutation(np.flatnonzero(kind)) for kind in (alike, ~alike))
    if not len(different):
        raise InputError("all texts have a class in common, but pairs need texts of different classes; add some")
    if strategy != "unique":
        size = {"oversampling": max, "undersampling": min}[strategy](len(same), len(different))
        same, different = np.resize(same, size), np.resize(different, size)
    chosen = random.permutation(np.concatenate([same, different]))
    return np.stack([first[chosen], second[chosen]], 1), alike[chosen].astype(np.float32)


class PairRows(Dataset[dict[str, object]]):
    """Rows for `LabelledPairCollator` from texts that are tokenized once and pairs of their positions.

    Args:
        texts: the token ids of each text.
        pairs: positions in `texts`, `[P, V]`.
        targets: the score of each pair `[P]`.
        prompt_length: tokens of a prompt at the start of each text, which are not pooled.

    Example:
        >>> PairRows([[2, 7, 3], [2, 8, 3]], np.array([[0, 1]]), np.array([1.0]))[0]
        {'input_ids': [[2, 7, 3], [2, 8, 3]], 'score': 1.0}
    """

    def __init__(
        self, texts: Sequence[Sequence[int]], pairs: NDArray[np.int64], targets: Labels, prompt_length: int = 0
    ) -> None:
        self.texts, self.pairs, self.targets, self.prompt_length = texts, pairs, targets, prompt_length

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, index: int) -> dict[str, object]:
        ids = [self.texts[number] for number in self.pairs[index]]
        prompt = {"prompt_length": [self.prompt_length] * len(ids)} if self.prompt_length else {}
        return {"input_ids": ids, **prompt, "score": self.targets[index].tolist()}
