"""Attention in training in bfloat16 on a CPU: other kernels, the same embeddings and gradients."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import AttentionInterface

from contrastive_st import BertForCL
from contrastive_st.speed import attention, use_speed
from contrastive_st.speed.attention import plain_attention, training_attention
from contrastive_st.speed.dropout import IntegerDropout

pytestmark = pytest.mark.slow


class Names(TorchDispatchMode):
    """The names of all operators that run within."""

    def __init__(self):
        super().__init__()
        self.seen = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.add(func.name())
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(("training", "length", "fused"), [(True, 9, False), (True, 200, True), (False, 9, True)])
def test_short_texts_in_training_take_the_plain_products(bert_config, training, length, fused):
    bert_config.attention_probs_dropout_prob = bert_config.hidden_dropout_prob = 0.0
    bert_config.max_position_embeddings = 256
    model = BertForCL(bert_config, pooling="mean").train(training)
    ids = torch.randint(5, bert_config.vocab_size, (4, length))
    with torch.autocast("cpu", torch.bfloat16), Names() as names:
        model.embed(ids)
    assert any("flash_attention" in name for name in names.seen) is fused


@pytest.fixture
def speed():
    """The switch, which is on again after the test."""
    yield use_speed
    use_speed(True)


def test_embeddings_and_gradients_agree_to_bfloat16(bert_config, speed):
    bert_config.attention_probs_dropout_prob = bert_config.hidden_dropout_prob = 0.0
    torch.manual_seed(0)
    model = BertForCL(bert_config, pooling="mean").train()
    ids = torch.randint(5, bert_config.vocab_size, (4, 9))
    found = []
    for on in (True, False):
        speed(on)
        model.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            embeddings = model.embed(ids)
        embeddings.float().square().sum().backward()
        found.append((embeddings.detach().float(), model.get_input_embeddings().weight.grad.clone()))
    for ours, theirs in zip(*found, strict=True):
        assert torch.nn.functional.cosine_similarity(ours.flatten(), theirs.flatten(), dim=0) > 0.9999


@pytest.mark.parametrize("kind", ["none", "bool", "numbers"])
@pytest.mark.parametrize("scale", [None, 0.3])
def test_plain_attention_is_the_formula(kind, scale):
    """Value and gradient, against a loop over rows and heads in float64, with the dropout of the same state."""
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 3, 5, 4).bfloat16().double().requires_grad_() for _ in range(3))
    seen = torch.rand(2, 1, 1, 5) < 0.7
    seen[..., 0] = True
    added = torch.randn(2, 3, 5, 5).double()
    mask = {"none": None, "bool": seen.expand(2, 1, 5, 5), "numbers": added}[kind]

    torch.manual_seed(1)
    kept = IntegerDropout(0.4)(torch.ones(2, 3, 5, 5, dtype=torch.bfloat16)).double()
    rows = []
    for n in range(2):
        for h in range(3):
            scores = q[n, h] @ k[n, h].T * (scale or 0.5)
            if kind == "bool":
                scores = scores.masked_fill(~seen[n, 0], float("-inf"))
            elif kind == "numbers":
                scores = scores + added[n, h]
            rows.append((scores.softmax(-1) * kept[n, h]) @ v[n, h])
    expected = torch.stack(rows).view(2, 3, 5, 4)
    gradients = torch.autograd.grad(expected.square().sum(), (q, k, v))

    torch.manual_seed(1)
    found = plain_attention(q, k, v, mask, 0.4, scale=scale)
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.double(), expected, rtol=0.03, atol=0.03)
    for ours, theirs in zip(torch.autograd.grad(found.double().square().sum(), (q, k, v)), gradients, strict=True):
        assert torch.nn.functional.cosine_similarity(ours.flatten(), theirs.flatten(), dim=0) > 0.999


def test_causal_attention_is_left_to_torch(bert_config):
    q, k, v = torch.randn(3, 1, 2, 6, 4).bfloat16()
    module = torch.nn.Module()
    bert_config._attn_implementation = "sdpa"
    with torch.autocast("cpu", torch.bfloat16), training_attention(bert_config, kernels=True):
        attend = AttentionInterface()[bert_config._attn_implementation]
        found, _ = attend(module, q, k, v, None, is_causal=True)
        assert not torch.equal(attend(module, q, k, v, None, is_causal=False)[0], found)
    assert torch.equal(found[:, 0], v[:, :, 0]), "the first token sees itself alone"
    assert bert_config._attn_implementation == "sdpa"


def test_without_the_switch_every_operation_is_torchs(bert_config, speed):
    speed(False)
    model = BertForCL(bert_config, pooling="mean").train()
    assert not model.can_pack
    ids = torch.randint(5, bert_config.vocab_size, (4, 9))
    with torch.autocast("cpu", torch.bfloat16), Names() as names:
        model.embed(ids, lengths=np.array([9, 9, 9, 9]))
    assert "aten::random_.from" not in names.seen, "dropout by integers"
    assert any("scaled_dot_product" in name or "flash_attention" in name or "softmax" in name for name in names.seen)


def test_another_thread_has_a_choice_of_its_own(bert_config):
    bert_config._attn_implementation = "sdpa"
    with training_attention(bert_config, padded=True), ThreadPoolExecutor(1) as pool:
        assert attention._CHOSEN.choice.padded is True
        assert pool.submit(lambda: attention._CHOSEN.choice.padded).result() is None


def test_a_compiled_encoder_trains_in_bfloat16(bert_config):
    """Dropout and attention within a compiled graph."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    bert_config.num_hidden_layers = 1  # a second one is compiled as the first
    model = BertForCL(bert_config, pooling="mean").train()
    model.backbone.encoder.layer[0].compile(backend="aot_eager", dynamic=True)
    with torch.autocast("cpu", torch.bfloat16):
        embeddings = model.embed(torch.randint(5, bert_config.vocab_size, (4, 9)))
    embeddings.float().square().sum().backward()
    assert model.get_input_embeddings().weight.grad.isfinite().all()
