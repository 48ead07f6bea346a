"""Candidates that go round give the loss and the gradients of candidates that are gathered, and of one process."""

import pytest
import ring_worker
from ranks import launch

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("world", [2, 3])
def test_what_goes_round_is_what_is_gathered(world, tmp_path):
    ranks = launch(world, tmp_path / "found.pt", ring_worker.__file__)
    for found in ranks:
        assert len(found) == len(ring_worker.LOSSES) * 2 * 2
        for (name, num_views, kind), errors in found.items():
            assert errors["loss"] < 1e-12, (name, num_views, kind)
            assert errors["gradient"] < 1e-12 < errors["size"], (name, num_views, kind)
            assert (errors["vectors"] == 0) == (kind == "ring"), (name, num_views, kind)
