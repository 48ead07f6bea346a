"""The rows of embeddings that have a gradient are added up over the processes as all rows are."""

import gradients_worker
import pytest
from ranks import launch

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("world", [2, 3])
def test_gradients_are_those_of_ddp_and_few_are_sent(world, tmp_path):
    every = gradients_worker.WORDS * 6 + 15
    for found in launch(world, tmp_path / "found.pt", gradients_worker.__file__):
        assert all(case["error"] < 1e-12 for case in found.values())
        assert found["few"]["size"] > 0.01
        assert found["none"]["size"] == 0
        assert found["few"]["sent"] < every / 2 < found["many"]["sent"] == every
