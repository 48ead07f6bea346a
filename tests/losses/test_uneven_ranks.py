"""Ranks with different numbers of rows, as threads of one process: their mean loss is that of the whole batch."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from contrastive_st.distributed import ProcessGather
from contrastive_st.losses import InfoNCE, KLDistillationLoss, RelationalDistillationLoss, TargetsLoss

ROWS = (2, 4, 1)


class Threads:
    """What the ranks of a group, each a thread, give each other."""

    def __init__(self):
        self.barrier, self.slots = threading.Barrier(len(ROWS), timeout=30), [None] * len(ROWS)

    def exchange(self, rank, own):
        self.slots[rank] = own
        self.barrier.wait()
        found = list(self.slots)
        self.barrier.wait()
        return found


class ThreadGather(ProcessGather):
    """A `ProcessGather` whose messages go between threads."""

    world = len(ROWS)

    def __init__(self, rank, threads):
        self.rank, self.threads, self.gathered = rank, threads, float("inf")

    def sizes(self, rows):
        return self.threads.exchange(self.rank, rows)

    def sum(self, count):
        return sum(self.threads.exchange(self.rank, count))

    def __call__(self, rows, sizes=None):
        return torch.cat(self.threads.exchange(self.rank, rows))

    def without_ring(self):
        return self


def on_ranks(work):
    """`work(rank, gather)` of each rank, all at once."""
    threads = Threads()
    with ThreadPoolExecutor(len(ROWS)) as pool:
        return list(pool.map(lambda rank: work(rank, ThreadGather(rank, threads)), range(len(ROWS))))


def test_an_offset_is_the_number_of_rows_of_the_ranks_before():
    assert on_ranks(lambda rank, gather: gather.offset(ROWS[rank])) == [0, 2, 6]


def batch(name):
    """A loss, its views and its targets, of seven rows."""
    views = torch.randn(7, 3, 5, dtype=torch.float64)
    places = torch.tensor([[0, 0], [0, 1], [0, 2], [0, 3], [1, 0], [1, 1], [1, 2]])
    return {
        "info_nce": (InfoNCE(0.3), views, None),
        "relations": (RelationalDistillationLoss(1.0, 0.0, 0.0), views[:, :1], torch.randn(7, 4, dtype=torch.float64)),
        "candidates": (KLDistillationLoss(in_batch_negatives=True), views, torch.randn(7, 2, dtype=torch.float64)),
        "windows": (TargetsLoss(targets="window"), views[:, :1], places),
    }[name]


@pytest.mark.parametrize("name", ["info_nce", "relations", "candidates", "windows"])
def test_the_mean_over_uneven_ranks_is_the_loss_of_the_whole_batch(name):
    loss, views, targets = batch(name)
    parts = list(zip(views.split(ROWS), [None] * 3 if targets is None else targets.split(ROWS), strict=True))
    found = on_ranks(lambda rank, gather: loss(*parts[rank], gather=gather))
    torch.testing.assert_close(torch.stack(found).mean(), loss(views, targets), rtol=1e-9, atol=0)
