"""A model sharded over two processes by `fully_shard` (FSDP 2): plain and cached steps are those of one process."""

import itertools

import fsdp_worker
import pytest
import torch
from ranks import launch, relative_error
from safetensors.torch import load_file

pytestmark = pytest.mark.slow


def test_sharded_plain_and_cached_are_one_process(tmp_path):
    results = {world: launch(world, tmp_path / f"{world}.pt", fsdp_worker.__file__) for world in (1, 2)}
    for lora in (False, True):
        reference = results[1][False, lora]
        for world, cached in itertools.product((1, 2), (False, True)):
            assert relative_error(results[world][cached, lora], reference) < 1e-9, (world, cached, lora)
        start = fsdp_worker.train(False, 0, 1, steps=0, lora=lora)
        assert relative_error(start, reference) > 1e-4  # it was trained
    for name, weight in load_file(tmp_path / "2.pt.adapter" / "adapter_model.safetensors").items():
        place = name.replace("base_model.model.", "bert.").replace(".weight", ".default.weight")
        torch.testing.assert_close(weight, results[2][True, True][place], rtol=0, atol=0)
