"""Rows computed without padding, as one row of all their tokens: the same embeddings and gradients in every family."""

import copy

import numpy as np
import pytest
import torch
import transformers
from torch.utils._python_dispatch import TorchDispatchMode

from contrastive_st import (
    BertForCL,
    CamembertForCL,
    DistilBertForCL,
    ElectraForCL,
    ModernBertForCL,
    MPNetForCL,
    RobertaForCL,
    XLMRobertaForCL,
)
from contrastive_st.speed import attention, packing

SHAPE = {"vocab_size": 60, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
NONE = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
BERT = {**SHAPE, **NONE, "use_cache": False, "intermediate_size": 32, "max_position_embeddings": 40}
CASES = {
    "bert": lambda: BertForCL(transformers.BertConfig(**BERT), pooling="mean"),
    "bert, its head": lambda: BertForCL(transformers.BertConfig(**BERT), pooling="cls"),
    "bert, two layers": lambda: BertForCL(transformers.BertConfig(**BERT), pooling="avg_first_last"),
    "roberta": lambda: RobertaForCL(transformers.RobertaConfig(**BERT, pad_token_id=1), pooling="cls"),
    "xlm-roberta": lambda: XLMRobertaForCL(transformers.XLMRobertaConfig(**BERT, pad_token_id=1), pooling="mean"),
    "camembert": lambda: CamembertForCL(transformers.CamembertConfig(**BERT, pad_token_id=1), pooling="cls"),
    "electra": lambda: ElectraForCL(transformers.ElectraConfig(**BERT, embedding_size=8), pooling="mean"),
    "distilbert": lambda: DistilBertForCL(
        transformers.DistilBertConfig(
            vocab_size=60, dim=16, n_layers=2, n_heads=2, hidden_dim=32, dropout=0.0, attention_dropout=0.0,
            max_position_embeddings=40,
        ),
        pooling="max",
    ),
    "modernbert": lambda: ModernBertForCL(
        transformers.ModernBertConfig(
            **SHAPE, intermediate_size=32, local_attention=16, global_attn_every_n_layers=2,
            **dict.fromkeys(("pad_token_id", "bos_token_id", "cls_token_id", "eos_token_id", "sep_token_id"), 0),
        ),
        pooling="mean",
    ),
}  # fmt: skip


class Shapes(TorchDispatchMode):
    """The most rows that any product has."""

    def __init__(self):
        super().__init__()
        self.rows = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func in (torch.ops.aten.addmm.default, torch.ops.aten.mm.default):
            self.rows = max(self.rows, args[-2].shape[0])
        return func(*args, **(kwargs or {}))


def batch(longest=9):
    """Rows of 1 to `longest` tokens."""
    lengths = np.array([longest, 1, 4, 6, 2, longest])
    mask = torch.from_numpy(np.arange(longest) < lengths[:, None]).long()
    ids = torch.randint(5, 60, mask.shape) * mask
    return {"input_ids": ids, "attention_mask": mask, "lengths": lengths}


def computed(model, rows, unpadded):
    """Embeddings, gradients and the most rows of a product."""
    model.unpadded = unpadded
    model.zero_grad()
    with Shapes() as seen:
        embeddings = model.embed(**rows)
    embeddings.square().sum().backward()
    gradients = {name: x.grad.clone() for name, x in model.named_parameters() if x.grad is not None}
    return embeddings.detach(), gradients, seen.rows


@pytest.fixture(params=["groups", "padded"])
def way(request, monkeypatch):
    """Attention as on a CPU, here in several groups, or as on a GPU."""
    monkeypatch.setattr(packing, "_GROUP", 8)
    if request.param == "padded":
        monkeypatch.setattr(packing, "_groups", lambda lengths, device: [])


@pytest.mark.parametrize("family", CASES)
def test_every_family_has_the_same_embeddings_and_gradients(family, way):
    torch.manual_seed(0)
    model, rows = CASES[family]().double().train(), batch()
    if model.config.pad_token_id == 1:  # its positions are counted from the padding
        rows["input_ids"] = rows["input_ids"] + (1 - rows["attention_mask"])
        rows["input_ids"][2, 1] = 1  # a text that holds it
    expected, gradients, padded = computed(model, rows, False)
    found, own, packed = computed(model, rows, True)
    assert packed == packing.packed_tokens(rows["lengths"], torch.device("cpu")) < padded
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)
    assert own.keys() == gradients.keys()
    for name, gradient in gradients.items():
        torch.testing.assert_close(own[name], gradient, rtol=1e-8, atol=1e-12, msg=name)


@pytest.mark.parametrize(
    "why", ["not known", "an empty row", "cutoff", "checkpointing", "window", "mpnet", "eager", "config"]
)
def test_what_cannot_be_packed_is_computed_as_before(why):
    torch.manual_seed(0)
    rows = batch(20 if why == "window" else 9)
    model = CASES["modernbert" if why == "window" else "bert"]()
    if why == "mpnet":
        model = MPNetForCL(transformers.MPNetConfig(**BERT), pooling="mean")
    if why == "eager":  # attention that is not torch's knows nothing of the rows
        model.set_attn_implementation("eager")
    if why == "config":  # which the layers do not read
        model.backbone.config = copy.deepcopy(model.backbone.config)
    model.train()
    if why == "not known":
        del rows["lengths"]
    elif why == "an empty row":
        rows["lengths"][1] = rows["attention_mask"][1, 0] = 0
        model.bucket_options = {"min_tokens": 1, "max_padding": 0.0}  # the other rows are in buckets of their own
    elif why == "cutoff":
        model.change_settings(cutoff="token", cutoff_ratio=0.5)
    elif why == "checkpointing":
        getattr(model, "activation_checkpointing_enable", model.gradient_checkpointing_enable)()
    found = []
    for unpadded in (False, True):
        torch.manual_seed(1)
        found.append(computed(model, rows, unpadded))
    assert torch.equal(found[0][0], found[1][0])
    assert found[0][2] == found[1][2]
    assert why == "an empty row" or found[0][2] > rows.get("lengths", np.zeros(1)).sum()


def test_a_training_step_in_bfloat16_attends_by_its_own_kernel(monkeypatch):
    calls, kernel = [], attention.plain_attention
    monkeypatch.setattr(
        attention, "plain_attention", lambda *args, **options: calls.append(1) or kernel(*args, **options)
    )
    model, rows = CASES["bert"]().train(), batch()
    with torch.autocast("cpu", torch.bfloat16):
        model.embed(**rows)
    assert len(calls) == model.config.num_hidden_layers  # the rows are one group


def test_few_tokens_more_than_the_rows_have_are_computed():
    lengths = np.random.default_rng(0).integers(1, 128, 200)
    device = torch.device("cpu")
    rows = packing.PackedRows(lengths, 128, device)
    assert lengths.sum() <= len(rows.places) <= len(rows.places) + rows.spare <= 1.08 * lengths.sum()
    assert rows.pack(torch.zeros(200, 128)).shape[1] == packing.packed_tokens(lengths, device)
    assert len({packing.packed_tokens(np.full(n, 30), device) for n in range(100, 200)}) < 40  # shapes of products


def test_attention_dropout_is_drawn(way):
    torch.manual_seed(0)
    model = BertForCL(transformers.BertConfig(**{**BERT, "attention_probs_dropout_prob": 0.5}), pooling="mean").train()
    model.unpadded, rows = True, batch()
    first, second = model.embed(**rows), model.embed(**rows)
    single = rows["lengths"] == 1
    assert not torch.allclose(first[~single], second[~single])
    assert first.isfinite().all()


@pytest.mark.parametrize(("capability", "there"), [((7, 5), False), ((8, 0), True), ((9, 0), True)])
def test_an_older_gpu_has_no_flash_attention(monkeypatch, capability, there):
    """A T4 trains in buckets of padded rows, as before."""
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.backends.cuda, "is_flash_attention_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    assert packing.has_flash_attention(torch.device("cuda")) == there
