"""Attention in training in bfloat16 on a CPU: other kernels, the same embeddings and gradients."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from contrastive_st import BertForCL
from contrastive_st.models.cpu import training_attention


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


def test_embeddings_and_gradients_agree_to_bfloat16(bert_config, monkeypatch):
    bert_config.attention_probs_dropout_prob = bert_config.hidden_dropout_prob = 0.0
    torch.manual_seed(0)
    model = BertForCL(bert_config, pooling="mean").train()
    ids = torch.randint(5, bert_config.vocab_size, (4, 9))
    found = []
    for kernel in (training_attention, lambda rows: torch.autograd.profiler.record_function("none")):
        monkeypatch.setattr("contrastive_st.models.modeling.training_attention", kernel)
        model.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            embeddings = model.embed(ids)
        embeddings.float().square().sum().backward()
        found.append((embeddings.detach().float(), model.get_input_embeddings().weight.grad.clone()))
    for ours, theirs in zip(*found, strict=True):
        assert torch.nn.functional.cosine_similarity(ours.flatten(), theirs.flatten(), dim=0) > 0.9999
