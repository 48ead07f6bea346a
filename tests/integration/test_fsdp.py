"""A model sharded over two processes by `fully_shard` (FSDP 2): plain and cached steps are those of one process."""

import fsdp_worker
import pytest
from ranks import launch, relative_error

pytestmark = pytest.mark.slow


def test_sharded_plain_and_cached_are_one_process(tmp_path):
    results = {world: launch(world, tmp_path / f"{world}.pt", fsdp_worker.__file__) for world in (1, 2)}
    reference = results[1][False]
    for world in (1, 2):
        for cached in (False, True):
            assert relative_error(results[world][cached], reference) < 1e-9, (world, cached)
    start = fsdp_worker.train(False, 0, 1, steps=0)
    assert relative_error(start, reference) > 1e-4  # it was trained
