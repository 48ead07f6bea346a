"""A model sharded over two processes by `fully_shard` (FSDP 2): plain and cached steps are those of one process."""

import itertools

import fsdp_worker
import pytest
import torch
from ranks import launch, relative_error
from safetensors.torch import load_file

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("fsdp")


@pytest.fixture(scope="module")
def results(folder):
    return {world: launch(world, folder / f"{world}.pt", fsdp_worker.__file__) for world in (1, 2)}


def test_sharded_plain_and_cached_are_one_process(results, folder):
    for lora in (False, True):
        reference = results[1][False, lora]
        for world, cached in itertools.product((1, 2), (False, True)):
            assert relative_error(results[world][cached, lora], reference) < 1e-9, (world, cached, lora)
        start = fsdp_worker.train(False, 0, 1, steps=0, lora=lora)
        assert relative_error(start, reference) > 1e-4  # it was trained
    for name, weight in load_file(folder / "2.pt.adapter" / "adapter_model.safetensors").items():
        place = name.replace("base_model.model.", "bert.").replace(".weight", ".default.weight")
        torch.testing.assert_close(weight, results[2][True, True][place], rtol=0, atol=0)


@pytest.mark.parametrize("distributed", [False, True])
def test_evaluators_of_a_sharded_model_say_what_one_process_says(results, distributed):
    """All processes take part in each forward pass, so an evaluator's texts are not divided there."""
    one, two = (results[world]["evaluators"][distributed] for world in (1, 2))
    assert relative_error(two, one) < 1e-5
    assert set(one) == {"eval_own_pearson", "eval_own_spearman"}
