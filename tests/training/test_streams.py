"""Streams: every row once a pass, whatever the shards, the workers and the processes."""

import collections
import itertools

import datasets
import pytest
from accelerate.data_loader import IterableDatasetShard
from torch.utils.data import DataLoader

from contrastive_st.data.mixture import EndlessStream

pytestmark = pytest.mark.slow

PASSES = 2


def _shard(lengths):
    for number, length in lengths:
        yield from ({"n": 100 * number + i} for i in range(length))


def _stream(lengths):
    """A stream with a shard of each length, and how often each row is to be seen in so many passes."""
    numbered = list(enumerate(lengths))
    data = datasets.IterableDataset.from_generator(_shard, gen_kwargs={"lengths": numbered})
    return data, collections.Counter({row["n"]: PASSES for row in _shard(numbered)})


def _batches(data, count, batch_size, workers):
    loader = DataLoader(data, batch_size=batch_size, num_workers=workers, collate_fn=lambda rows: rows)
    return [[row["n"] for row in batch] for batch in itertools.islice(loader, count)]


SHARDS = [[5] * 3, [5], [5] * 2, [5] * 4, [1, 9, 3, 7], [12, 2, 2], [1, 19]]


@pytest.mark.parametrize(
    ("lengths", "workers"), [*((shards, 2) for shards in SHARDS), ([5] * 2, 3), ([5] * 3, 1), ([1, 9, 3, 7], 4)]
)
@pytest.mark.allow_warnings  # more workers than cores
def test_a_stream_gives_each_row_once_a_pass_with_any_number_of_workers(lengths, workers):
    """Seen before: with 3 shards for 2 workers, or shards of 1 and 9 rows, rows came 1 to 4 times in two passes."""
    data, wanted = _stream(lengths)
    batches = _batches(EndlessStream(data, 2), PASSES * sum(lengths) // 2, 2, workers)
    assert collections.Counter(itertools.chain(*batches)) == wanted
    assert batches == _batches(EndlessStream(data, 2), len(batches), 2, 0)


@pytest.mark.parametrize("workers", [0, 3])
@pytest.mark.parametrize("lengths", [[1, 9, 3, 7], [19, 1]], ids=str)
@pytest.mark.allow_warnings
def test_processes_share_out_each_batch_and_stay_in_step(lengths, workers):
    data, wanted = _stream(lengths)
    ranks = []
    for rank in range(2):  # as accelerate wraps a stream for each process
        own = IterableDatasetShard(EndlessStream(data, 4), batch_size=2, num_processes=2, process_index=rank)
        ranks.append(_batches(own, PASSES * sum(lengths) // 4, 2, workers))
    together = [first + second for first, second in zip(*ranks, strict=True)]
    assert collections.Counter(itertools.chain(*together)) == wanted
    assert together == _batches(EndlessStream(data, 4), len(together), 4, 0)
