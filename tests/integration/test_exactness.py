"""The central invariant: plain = cached = bucketed = packed = several processes, in loss, gradients and weights."""

import itertools

import distributed_worker
import numpy as np
import pytest
import torch
import uneven_worker
from ranks import relative_error, together

TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-5}


@pytest.fixture(scope="module")
def results():
    return {world: together(world, distributed_worker.main, world)[0] for world in (1, 2)}


def cases():
    """Every case but those whose dropout masks cannot be the same: another order of encoding, another process."""
    worlds = itertools.product(distributed_worker.GRID, (1, 2))
    grid = [(case, *way, world) for case, world in worlds for way in distributed_worker.ways(case, world)]
    for case, cached, rows, world in grid:
        if world == 1 or (not case[-1] and case[1] == torch.float64):
            words = [case[0], str(case[1])[6:], f"dropout{case[2]}", "cached" if cached else "plain"]
            yield pytest.param(case, cached, rows, world, id="-".join([*words, rows, f"{world}p"]))


@pytest.mark.slow
@pytest.mark.parametrize(("case", "cached", "rows", "world"), list(cases()))
def test_same_loss_gradients_and_weights(results, case, cached, rows, world):
    dtype, dropout = case[1:]
    reference = results[1][(*case, False, "bucketed" if dropout else "padded")]
    ours = results[world][(*case, cached, rows)]
    tolerance = TOLERANCE[dtype]
    torch.testing.assert_close(ours["losses"][0], reference["losses"][0], rtol=tolerance, atol=0)
    assert relative_error(ours["gradients"], reference["gradients"]) < tolerance
    if dtype == torch.float64:  # Adam makes a full step of a gradient that is rounding error: weights need float64
        assert relative_error(ours["weights"], reference["weights"]) < tolerance


@pytest.mark.slow
def test_dropout_is_replayed_in_two_processes(results):
    """Two processes draw masks of their own; plain and cached draw the same ones."""
    for case in distributed_worker.GRID:
        if case[-1]:
            plain, cached = (results[2][(*case, way, "bucketed")] for way in (False, True))
            assert relative_error(cached["gradients"], plain["gradients"]) < TOLERANCE[case[1]]


@pytest.mark.slow
def test_one_gradient_all_reduce_an_optimizer_step(results):
    """The GradCache step encodes seven chunks a batch twice; the gradients cross the network once."""
    for name, run in results[2].items():
        assert run["reductions"] == len(run["losses"]) == distributed_worker.steps_of(name[0]), name


@pytest.mark.slow
def test_the_last_batch_of_an_epoch_is_shared_too(tmp_path):
    """Three rows, and one: the second process has one, and none."""
    alone, both = (together(world, uneven_worker.main, str(tmp_path / str(world)))[0] for world in (1, 2))
    for case, expected in alone.items():
        assert expected.keys() == both[case].keys()
        for name, values in expected.items():
            rtol = 1e-5 if name == "logged" else 0
            np.testing.assert_allclose(both[case][name], values, rtol=rtol, atol=1e-6, err_msg=f"{case} {name}")
