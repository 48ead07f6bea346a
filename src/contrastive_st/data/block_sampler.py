"""The order in which a corpus is read: blocks of neighbours, another order of the blocks each epoch."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from torch.utils.data import Sampler


class BlockSampler(Sampler[int]):
    """Row numbers `0 .. rows-1`, each once: contiguous blocks, shuffled by `(seed, epoch)` and nothing else.

    Where blocks are as long as a batch (or a multiple), every batch is a stretch of neighbouring rows. Fewer than
    `block` rows are left over, some at the start and some at the end of the corpus, others each epoch; they come
    last, so that `drop_last` of the batch sampler drops (or keeps) them without moving a batch's boundary. What is
    held is one number a block.

    Args:
        rows: length of the corpus.
        block: rows of a block.
        seed: of the order.
        pool: that many blocks are mixed, row by row, before they are handed out: shuffling with a buffer, for data
            whose order means nothing. 1 keeps the rows of a block together and in order.

    Example:
        >>> sampler = BlockSampler(rows=10, block=3, seed=0)
        >>> list(sampler)
        [7, 8, 9, 1, 2, 3, 4, 5, 6, 0]
        >>> sampler.set_epoch(1)
        >>> list(sampler)
        [4, 5, 6, 1, 2, 3, 7, 8, 9, 0]
    """

    def __init__(self, rows: int, block: int, seed: int = 0, pool: int = 1) -> None:
        self.rows, self.block, self.seed, self.pool = rows, block, seed, pool
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Choose the order: the same epoch has the same order, whatever was read before."""
        self.epoch = epoch

    def __len__(self) -> int:
        return self.rows

    def __iter__(self) -> Iterator[int]:
        random = np.random.default_rng((self.seed, self.epoch))
        blocks, over = divmod(self.rows, self.block)
        start = int(random.integers(over + 1))
        order = random.permutation(blocks)
        for first in range(0, blocks, self.pool):
            rows = start + self.block * order[first : first + self.pool, None] + np.arange(self.block)
            rows = rows.ravel()
            if self.pool > 1:
                random.shuffle(rows)
            yield from rows.tolist()
        yield from range(start)
        yield from range(start + blocks * self.block, self.rows)
