"""float32 products on packed weights: the same values, and nothing left behind."""

import threading

import numpy as np
import pytest
import torch
from torch import nn

from contrastive_st.models import BertForCL, SentenceEncoder
from contrastive_st.speed.products import packed_products


def test_values_agree_to_rounding_for_any_number_of_rows():
    torch.manual_seed(0)
    for bias in (True, False):
        layer = nn.Linear(96, 40, bias=bias)
        for rows in (1, 7, 1024, 3000):
            x = torch.randn(rows, 96)
            with torch.inference_mode(), packed_products(layer):
                packed = layer(x)
            torch.testing.assert_close(packed, layer(x), rtol=1e-5, atol=1e-5)


def test_nothing_is_left_behind_and_changed_weights_are_seen():
    layer, x = nn.Linear(8, 4), torch.ones(2, 8)
    with torch.inference_mode(), packed_products(layer):
        before = layer(x)
    assert "forward" not in vars(layer)
    with torch.no_grad():
        layer.weight += 1
    with torch.inference_mode(), packed_products(layer):
        after = layer(x)
    torch.testing.assert_close(after, before + 8)
    layer(x).sum().backward()
    assert layer.weight.grad is not None


def test_other_precisions_and_layers_are_left_alone():
    layers = nn.ModuleList([nn.Linear(4, 4).double(), nn.Linear(4, 4).bfloat16(), nn.Embedding(4, 4)])
    with packed_products(layers):
        assert all("forward" not in vars(layer) for layer in layers)


def test_an_encoder_used_by_several_threads_at_once(bert_config, tokenizer):
    model = BertForCL(bert_config, pooling="mean").train()
    encoder = SentenceEncoder(model, tokenizer)
    texts = ["the cat sat on the mat"] * 200 + ["rain"] * 100
    expected = encoder.encode(texts[::50])
    found = []
    threads = [threading.Thread(target=lambda: found.append(encoder.encode(texts))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    for vectors in found:
        np.testing.assert_allclose(vectors[::50], expected, atol=1e-6)
    assert model.training


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="torch was built without oneDNN")
def test_a_model_that_brings_its_own_autocast():
    """As Accelerate wraps the forward of a model in training with bf16: packed products are of float32 alone."""
    layer, x = torch.nn.Linear(8, 4), torch.randn(3, 8)
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        plain = layer(x)
        with packed_products(layer):
            assert torch.equal(layer(x), plain)
            assert torch.equal(layer(x.bfloat16()), layer(x.bfloat16()))
