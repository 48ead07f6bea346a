"""ForCL models: loss and gradients against a plain loop, every family, both published layouts."""

import json

import pytest
import torch
import transformers
from plain import loop_loss, loop_pool
from refusals import refusal
from safetensors.torch import load_file, save_file
from transformers import AutoModel

from contrastive_st import AutoModelForCL, BertForCL, InputError, RobertaForCL
from contrastive_st.models import POOLINGS
from contrastive_st.models.base import text_hashes
from contrastive_st.models.checkpoint import max_positions
from contrastive_st.models.families import ENCODERS, family as class_of

FAMILIES = [class_of(kind) for kind in ENCODERS]


def batch_of(num_views, rows=4, length=7, vocabulary=50):
    ids = torch.randint(5, vocabulary, (rows, num_views, length))
    lengths = torch.randint(2, length + 1, (rows, num_views, 1))
    lengths.view(-1)[0] = length
    mask = (torch.arange(length) < lengths).long()
    return {"input_ids": ids * mask, "attention_mask": mask}


def tiny(family, **settings):
    config = family.config_class(
        vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=24, pad_token_id=0, bos_token_id=2, eos_token_id=3, cls_token_id=2, sep_token_id=3,
    )  # fmt: skip
    return family(config, **settings)


POOLERLESS = ("distilbert", "electra", "deberta-v2", "modernbert")


def pools(family):
    return [p for p in POOLINGS if p != "cls" or family.config_class.model_type not in POOLERLESS]


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("num_views", [2, 3, 4])
def test_loss_and_gradients_equal_a_plain_loop(bert_config, pooling, num_views):
    bert_config.hidden_dropout_prob = bert_config.attention_probs_dropout_prob = 0.0
    model = BertForCL(bert_config, pooling=pooling, hard_negative_weight=0.3).double().train()
    batch = batch_of(num_views)
    model(**batch).loss.backward()
    ours = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    loss = model(**batch).loss.detach()

    model.zero_grad()
    rows = {name: tensor.flatten(0, 1) for name, tensor in batch.items()}
    output = model.bert(**rows, output_hidden_states=True)  # one padded batch, no buckets
    embeddings = (
        output.pooler_output if pooling == "cls" else loop_pool(output.hidden_states, rows["attention_mask"], pooling)
    )
    plain = loop_loss(embeddings.view(4, num_views, -1), 0.05, weight=0.3)
    plain.backward()
    expected = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    torch.testing.assert_close(loss, plain.detach(), rtol=1e-9, atol=1e-9)
    assert ours.keys() == expected.keys()
    torch.testing.assert_close(ours, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.__name__)
def test_every_family_trains_and_reopens(family, tmp_path):
    for pooling in {"cls", "mean", "avg_first_last"} & {*pools(family)}:
        model = tiny(family, pooling=pooling)
        batch = batch_of(2)
        model.train()(**batch).loss.backward()
        idle = [name for name, p in model.named_parameters() if p.requires_grad and p.grad is None]
        assert not idle, f"{pooling}: parameters without gradient, which DDP would wait for: {idle}"
        model.save_pretrained(tmp_path / pooling)
        reopened = AutoModelForCL.from_pretrained(tmp_path / pooling).eval()
        assert type(reopened) is family
        trained = [{name for name, p in own.named_parameters() if p.requires_grad} for own in (model, reopened)]
        assert trained[0] == trained[1]
        assert reopened.settings == model.settings
        torch.testing.assert_close(reopened.embed(**batch), model.eval().embed(**batch), rtol=0, atol=0)


@pytest.mark.parametrize("family", [f for f in FAMILIES if "cls" not in pools(f)], ids=lambda f: f.__name__)
def test_a_family_without_pooler_says_so(family):
    with pytest.raises(InputError, match="no pooler"):
        tiny(family, pooling="cls")


def test_mlp_only_train_uses_the_head_in_training_only(bert_config):
    model = BertForCL(bert_config, mlp_only_train=True)
    rows = batch_of(1)["input_ids"][:, 0]
    first = model.eval().bert(rows).last_hidden_state[:, 0]
    torch.testing.assert_close(model(rows).pooler_output, first)
    bert_config.hidden_dropout_prob = bert_config.attention_probs_dropout_prob = 0.0
    trained = BertForCL(bert_config, mlp_only_train=True).train()
    torch.testing.assert_close(trained(rows).pooler_output, trained.bert(rows).pooler_output)


def test_the_contrastive_loss_ignores_mlm_and_the_mlm_loss_is_added(bert_config):
    bert_config.hidden_dropout_prob = bert_config.attention_probs_dropout_prob = 0.0
    model = BertForCL(bert_config, do_mlm=True, mlm_weight=0.5).train()
    batch = batch_of(2)
    labels = torch.full_like(batch["input_ids"], -100)
    labels[:, :, 1] = batch["input_ids"][:, :, 1]
    masked = batch["input_ids"].clone()
    masked[:, :, 1] = 4
    plain = model(**batch).loss
    both = model(**batch, mlm_input_ids=masked, mlm_targets=labels).loss
    logits = model.cls(
        model.bert(masked.flatten(0, 1), attention_mask=batch["attention_mask"].flatten(0, 1)).last_hidden_state
    )
    expected = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
    torch.testing.assert_close(both, plain + 0.5 * expected)
    tied = model.cls.predictions.decoder.weight
    assert tied is model.bert.embeddings.word_embeddings.weight


def published(model, folder, layout):
    """Write the weights of `model` as the SimCSE authors published theirs."""
    model.save_pretrained(folder)
    weights = load_file(folder / "model.safetensors")
    prefix = model.base_model_prefix + "."
    config = json.loads((folder / "config.json").read_text())
    del config["contrastive"]
    if layout == "training":
        weights = {name.replace(f"{prefix}pooler.dense", "mlp.dense"): w for name, w in weights.items()}
        if model.base_model_prefix == "bert":
            weights = {name.replace("cls.predictions.", "lm_head."): w for name, w in weights.items()}
    else:
        weights = {name.removeprefix(prefix): w for name, w in weights.items() if name.startswith(prefix)}
        config["architectures"] = [config["architectures"][0].replace("ForCL", "Model")]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize("layout", ["training", "converted"])
@pytest.mark.parametrize("family", [BertForCL, RobertaForCL], ids=lambda f: f.__name__)
@pytest.mark.parametrize("do_mlm", [False, True])
def test_both_published_layouts_open_without_a_warning(family, layout, do_mlm, tmp_path):
    model = tiny(family, do_mlm=do_mlm)
    folder = published(model, tmp_path, layout)
    rows = batch_of(1)["input_ids"][:, 0]
    expected = model.eval()(rows).pooler_output
    for _ in range(2):  # as published, and saved again by this package
        opened = AutoModelForCL.from_pretrained(folder).eval()
        torch.testing.assert_close(opened(rows).pooler_output, expected, rtol=0, atol=1e-6)
        folder = tmp_path / "again"
        opened.save_pretrained(folder)
    torch.testing.assert_close(
        AutoModel.from_pretrained(folder).eval()(rows).pooler_output, expected, rtol=0, atol=1e-6
    )


def test_the_published_mlm_head_is_used_again(tmp_path):
    model = tiny(BertForCL, do_mlm=True)
    opened = AutoModelForCL.from_pretrained(published(model, tmp_path, "training"), do_mlm=True)
    torch.testing.assert_close(opened.cls.state_dict(), model.cls.state_dict())


@pytest.mark.parametrize("source", ["BertForMaskedLM", "BertForPreTraining"])
def test_a_plain_encoder_gets_a_new_head_and_a_sentence_encoder_keeps_its_own(source, bert_config, tmp_path):
    plain = getattr(transformers, source)(bert_config)
    plain.save_pretrained(tmp_path / "plain")
    model = BertForCL.from_pretrained(tmp_path / "plain")
    torch.testing.assert_close(model.bert.embeddings.state_dict(), plain.bert.embeddings.state_dict())
    if plain.bert.pooler is not None:
        assert not torch.equal(model.bert.pooler.dense.weight, plain.bert.pooler.dense.weight)
    model.save_pretrained(tmp_path / "cl")
    kept = BertForCL.from_pretrained(tmp_path / "cl")
    torch.testing.assert_close(kept.bert.pooler.state_dict(), model.bert.pooler.state_dict())
    renewed = BertForCL.from_pretrained(tmp_path / "cl", new_head=True)
    assert not torch.equal(renewed.bert.pooler.dense.weight, model.bert.pooler.dense.weight)


def test_settings_given_at_opening_win_over_the_saved_ones(bert_config, tmp_path):
    BertForCL(bert_config, pooling="mean", temperature=0.1).save_pretrained(tmp_path)
    opened = AutoModelForCL.from_pretrained(tmp_path, temperature=0.2)
    assert (opened.settings.pooling, opened.settings.loss.temperature) == ("mean", 0.2)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"pooling": "median"}, "avg_first_last"),
        ({"temperature": 0}, "above 0"),
        ({"pooler": "cls"}, "with the loss info_nce there are with_head"),
        ({"loss": "x"}, "info_nce"),
    ],
)
def test_bad_settings_are_named(bert_config, settings, words):
    with pytest.raises(InputError, match=words):
        BertForCL(bert_config, **settings)


def test_what_cannot_be_opened_is_said_in_one_line(tmp_path):
    with pytest.raises(InputError, match=r"config\.json"):
        AutoModelForCL.from_pretrained(tmp_path)
    (tmp_path / "config.json").write_text(
        json.dumps({"model_type": "custom-x", "auto_map": {"AutoConfig": "configuration_x.X"}})
    )
    (tmp_path / "configuration_x.py").write_text("raise SystemExit('remote code ran')")
    with refusal("repository"):
        AutoModelForCL.from_pretrained(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "vit"}))
    with pytest.raises(InputError, match="model_type"):
        AutoModelForCL.from_pretrained(tmp_path)


def test_max_positions_counts_what_the_family_can_number():
    for family in FAMILIES:
        model = tiny(family, pooling="mean").eval()
        limit = max_positions(model.config)
        model(torch.full((1, limit), 7))
        if family.config_class.model_type != "modernbert":  # rotary positions have no hard end
            with pytest.raises((IndexError, RuntimeError)):
                model(torch.full((1, limit + 1), 7))


def test_text_hashes_see_texts_and_not_padding():
    ids = torch.tensor([[2, 7, 3, 0], [2, 7, 3, 0], [2, 3, 7, 0], [2, 7, 3, 5]])
    mask = (ids > 0).long()
    keys = text_hashes(ids, mask)
    assert keys[0] == keys[1]
    assert len(set(keys.tolist())) == 3
    assert torch.equal(text_hashes(ids[:3, :3], mask[:3, :3]), keys[:3])
    many = torch.randint(0, 30_000, (20_000, 12)).unique(dim=0)
    assert len(text_hashes(many, None).unique()) == len(many)
