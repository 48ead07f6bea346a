"""What processes share, as one process has it: candidates, gathered or passed round, and the gradients of words."""

import pytest
import ring_worker
from ranks import together

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=[2, 3])
def ranks(request):
    """What each of so many processes found."""
    return together(request.param, ring_worker.main, request.param)


def test_what_goes_round_is_what_is_gathered(ranks):
    for found in (own["candidates"] for own in ranks):
        assert len(found) == len(ring_worker.LOSSES) * 2 * 2
        for (name, num_views, kind), errors in found.items():
            assert errors["loss"] < 1e-12, (name, num_views, kind)
            assert errors["gradient"] < 1e-12 < errors["size"], (name, num_views, kind)
            assert (errors["vectors"] == 0) == (kind == "ring"), (name, num_views, kind)


def test_gradients_are_those_of_ddp_and_few_are_sent(ranks):
    every = ring_worker.WORDS * 6 + 15
    for found in (own["gradients"] for own in ranks):
        assert all(case["error"] < 1e-12 for case in found.values())
        assert found["few"]["size"] > 0.01
        assert found["none"]["size"] == 0
        assert found["few"]["sent"] < every / 2 < found["many"]["sent"] == every
