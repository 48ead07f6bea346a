"""Streams: every row once a pass, whatever the workers."""

import itertools

import pytest


def _shard(numbers):
    for start in numbers:
        yield from ({"n": 10 * start + i} for i in range(5))


@pytest.mark.parametrize(("shards", "workers"), [(3, 2), (1, 3), (2, 3), (2, 2), (4, 2)])
def test_a_stream_gives_each_row_once_a_pass_with_any_number_of_workers(shards, workers):
    """Seen before: with 3 shards for 2 workers, rows came one to three times in two passes."""
    import datasets
    from torch.utils.data import DataLoader

    from contrastive_st.training.trainer import EndlessStream

    numbers = list(range(shards))
    data = datasets.IterableDataset.from_generator(_shard, gen_kwargs={"numbers": numbers})
    loader = DataLoader(EndlessStream(data, 2), batch_size=2, num_workers=workers, collate_fn=lambda rows: rows)
    batches = itertools.islice(loader, 2 * 5 * shards // 2)
    seen = sorted(row["n"] for batch in batches for row in batch)
    assert seen == sorted(2 * [row["n"] for row in _shard(numbers)])
