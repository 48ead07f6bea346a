"""What processes share, as one process has it: gathered candidates and the gradients of words."""

import gathered_worker
import pytest
from ranks import launch

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=[2, 3])
def ranks(request, tmp_path_factory):
    """What each of so many processes found."""
    return launch(request.param, tmp_path_factory.mktemp("ranks") / "found.pt", gathered_worker.__file__)


def test_gathered_candidates_have_the_gradients_of_one_process(ranks):
    for found in (own["candidates"] for own in ranks):
        assert len(found) == len(gathered_worker.LOSSES) * 2
        for case, errors in found.items():
            assert errors["loss"] < 1e-12, case
            assert errors["gradient"] < 1e-12 < errors["size"], case


def test_gradients_are_those_of_ddp_and_few_are_sent(ranks):
    every = gathered_worker.WORDS * 6 + 15
    for found in (own["gradients"] for own in ranks):
        assert all(case["error"] < 1e-12 for case in found.values())
        assert found["few"]["size"] > 0.01
        assert found["none"]["size"] == 0
        assert found["few"]["sent"] < every / 2 < found["many"]["sent"] == every
