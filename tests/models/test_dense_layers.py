"""Layers after the pooling, in training: they are rebuilt from the config, and have the gradients of a plain step."""

import contextlib
import shutil

import pytest
import torch
from ranks import relative_error
from small_checkpoints import sentence_transformers_folder, tiny_bert
from transformers import BertModel

from contrastive_st import AutoModelForCL
from contrastive_st.training.gradcache import Chunks, gradcache_step

pytestmark = pytest.mark.allow_warnings


@pytest.fixture(scope="module")
def base(tmp_path_factory, tokenizer):
    """A tiny BERT with Dense(ReLU) and Normalize, as sentence-transformers saves it."""
    torch.manual_seed(0)
    config = tiny_bert(tokenizer, num_hidden_layers=2, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    return sentence_transformers_folder(
        tmp_path_factory.mktemp("base"), BertModel(config), tokenizer, ["mean_tokens"], [(10, "ReLU")], normalize=True,
        length=12, prompts={"query": "the cat "}, truncate_dim=6, similarity_fn_name="dot",
    )  # fmt: skip


def test_the_config_alone_rebuilds_the_model(base, tmp_path):
    """Without the files of sentence-transformers, and with the class itself."""
    own = AutoModelForCL.from_pretrained(base)
    own.save_pretrained(tmp_path)
    for path in ("modules.json", "sentence_bert_config.json", "config_sentence_transformers.json"):
        (tmp_path / path).unlink()
    shutil.rmtree(tmp_path / "2_Dense")
    for model in (type(own).from_pretrained(tmp_path), AutoModelForCL.from_pretrained(tmp_path)):
        assert model.settings == own.settings
        assert all(torch.equal(a, b) for a, b in zip(model.parameters(), own.parameters(), strict=True))


def test_heads_of_losses_have_the_dimension_after_the_dense_layers(base):
    model = AutoModelForCL.from_pretrained(base, loss="softmax", num_labels=3)
    ids = torch.randint(5, 20, (4, 2, 7))
    model(ids, targets=torch.tensor([0, 1, 2, 0])).loss.backward()
    assert model.after[0].weight.grad.abs().sum() > 0
    assert {id(p) for p in model.head_parameters()} == {id(p) for p in model.loss_head.parameters()}


def test_gradients_are_those_of_the_plain_step_cached_and_bucketed(base):
    """Of every weight, the dense layer included; the reference pools and normalizes by hand."""
    ids = torch.randint(5, 20, (6, 2, 11), generator=torch.Generator().manual_seed(0))
    mask = (torch.arange(11) < torch.randint(3, 12, (6, 2, 1), generator=torch.Generator().manual_seed(1))).long()

    def run(step, bucketed=False):
        model = AutoModelForCL.from_pretrained(base, dtype=torch.float64)
        model.train()
        model.length_bucketing, model.bucket_options = bucketed, {"min_tokens": 8, "max_padding": 0.0}
        value = step(model)
        return value.detach(), {name: p.grad for name, p in model.named_parameters() if p.grad is not None}

    def plain(model):
        loss = model(ids, attention_mask=mask).loss
        loss.backward()
        return loss

    def cached(model):
        encode = lambda lengths=None, **rows: model(**rows).pooler_output
        return gradcache_step(
            {"input_ids": ids, "attention_mask": mask}, encode, lambda views: model.compute_loss(views),
            torch.Tensor.backward, contextlib.nullcontext, Chunks(5), parameters=model.head_parameters(),
        )[0]  # fmt: skip

    def by_hand(model):
        rows, real = ids.flatten(0, 1), mask.flatten(0, 1)
        states = model.backbone(rows, attention_mask=real).last_hidden_state
        mean = (states * real[..., None]).sum(1) / real.sum(1, keepdim=True)
        vectors = torch.relu(mean @ model.after[0].weight.T + model.after[0].bias)
        vectors = vectors / vectors.norm(dim=1, keepdim=True)
        loss = model.compute_loss(vectors.view(6, 2, -1))
        loss.backward()
        return loss

    wanted, gradients = run(by_hand)
    assert gradients["after.0.weight"].abs().sum() > 0
    for step, bucketed in ((plain, False), (plain, True), (cached, False)):
        value, found = run(step, bucketed)
        torch.testing.assert_close(value, wanted, rtol=1e-9, atol=0)
        assert found.keys() == gradients.keys()
        assert relative_error(found, gradients) < 1e-9
