"""Cutoff: what is cut, what is kept, and that the encoder sees it so; each known fault is absent."""

import json
from itertools import pairwise

import pytest
import torch
from safetensors.torch import load_file
from scripts import load, tiny
from transformers import AutoConfig

from conftest import SENTENCES
from contrastive_st.errors import InputError
from contrastive_st.hub.cards import write_card
from contrastive_st.models import AutoModelForCL, BertForCL
from contrastive_st.models.modeling import draw_cutoff

LENGTHS = torch.tensor([20, 9, 2, 30])
MASK = (torch.arange(30) < LENGTHS[:, None]).long()


@pytest.mark.parametrize("kind", ["token", "span"])
def test_tokens_are_cut_once_each_and_never_the_first(kind):
    """The published code draws with replacement, so that it cuts fewer than asked, and may cut [CLS]."""
    met = torch.zeros(30, dtype=torch.bool)
    for seed in range(150):
        torch.manual_seed(seed)
        factors, mask = draw_cutoff(MASK, 8, kind, 0.3)
        cut = (MASK - mask).bool()
        assert cut.sum(1).tolist() == [6, 2, 0, 9]  # int(0.3 n)
        assert not cut[:, 0].any()
        assert torch.equal(factors[..., 0], mask.float())  # what is zeroed is not attended to
        if kind == "span":
            for row, count in zip(cut, [6, 2, 0, 9], strict=True):
                places = row.nonzero()[:, 0]
                assert count == 0 or places[-1] - places[0] == count - 1
        met |= cut[3]
    assert met[1:].all()  # any place may go, the last included


def test_features_are_cut_once_each_the_same_for_all_tokens():
    seen = set()
    for seed in range(20):
        torch.manual_seed(seed)
        factors, mask = draw_cutoff(MASK, 10, "feature", 0.3)
        assert factors.shape == (4, 1, 10)
        assert ((factors == 0).sum(-1) == 3).all()
        assert torch.equal(mask, MASK)
        seen.add(tuple(factors.flatten().tolist()))
    assert len(seen) == 20


def embedding(model, ids, mask):
    torch.manual_seed(5)
    return model(ids, attention_mask=mask).pooler_output


SMALL = {"vocab_size": 60, "num_hidden_layers": 1, "num_attention_heads": 2, "hidden_size": 16, "intermediate_size": 32}
DEBERTA_V3 = {
    "relative_attention": True, "pos_att_type": ["p2c", "c2p"], "share_att_key": True, "position_buckets": 4,
    "norm_rel_ebd": "layer_norm", "position_biased_input": False, "type_vocab_size": 0,
}  # fmt: skip
MARKS = {"pad_token_id": 0, "cls_token_id": 2, "sep_token_id": 3, "bos_token_id": 2, "eos_token_id": 3}
FAMILIES = {
    "roberta": MARKS, "mpnet": MARKS, "electra": {"embedding_size": 8}, "deberta-v2": DEBERTA_V3, "distilbert": {},
    "modernbert": MARKS,
}  # fmt: skip


@pytest.mark.parametrize(("kind", "pooling"), [("token", "mean"), ("span", "max"), ("feature", "last")])
@pytest.mark.parametrize("family", ["bert", *FAMILIES])
def test_every_family_cuts_in_training_alone(bert_config, family, kind, pooling):
    if family != "bert":
        bert_config = AutoConfig.for_model(family, **SMALL, **FAMILIES[family])
    for name in ("hidden_dropout_prob", "attention_probs_dropout_prob", "dropout", "attention_dropout"):
        if hasattr(bert_config, name):
            setattr(bert_config, name, 0.0)
    model = AutoModelForCL.from_config(bert_config, pooling=pooling, cutoff=kind, cutoff_ratio=0.4)
    ids, mask = torch.randint(5, 50, (3, 12)), (torch.arange(12) < torch.tensor([[12], [9], [5]])).long()
    trained, finished = embedding(model.train(), ids, mask), embedding(model.eval(), ids, mask)
    assert not torch.allclose(trained, finished, atol=1e-4)
    model.change_settings(cutoff=None)
    assert torch.equal(embedding(model.eval(), ids, mask), finished)
    model.length_bucketing = True
    torch.testing.assert_close(embedding(model.train(), ids, mask), finished, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("pooling", ["mean", "max", "last"])
def test_what_a_cut_token_was_does_not_matter(bert_config, pooling):
    """The attention mask follows the embedding: neither layers nor pooling read a cut token."""
    bert_config.hidden_dropout_prob = bert_config.attention_probs_dropout_prob = 0.0
    model = BertForCL(bert_config, pooling=pooling, cutoff="token", cutoff_ratio=0.5).train()
    ids, mask = torch.randint(5, 40, (1, 12)), torch.ones(1, 12, dtype=torch.long)
    torch.manual_seed(5)
    cut = draw_cutoff(mask, 16, "token", 0.5)[1][0] == 0
    other = ids.clone()
    other[0, cut] = (ids[0, cut] - 5 + 7) % 35 + 5
    assert torch.equal(embedding(model, ids, mask), embedding(model, other, mask))
    other[0, int((~cut).nonzero()[-2])] += 1
    assert not torch.equal(embedding(model, ids, mask), embedding(model, other, mask))


@pytest.mark.parametrize("settings", [{"cutoff": "word"}, {"cutoff": "span", "cutoff_ratio": 1.0}])
def test_no_such_cutoff(bert_config, settings):
    with pytest.raises(InputError, match="cutoff"):
        BertForCL(bert_config, **settings)


METHODS = {"do_mlm": True, "mlm_weight": 0.3, "cutoff": "span", "cutoff_ratio": 0.4}


@pytest.mark.parametrize(("dropped", "given", "held"), [
    (True, {}, {}), (True, {"loss": "info_nce"}, {}),
    (False, {}, METHODS), (False, {"loss": "info_nce"}, {}), (False, {"loss": "info_nce", **METHODS}, METHODS),
])  # fmt: skip
def test_another_training_does_not_inherit_what_one_added_to_its_loss(bert_config, dropped, given, held, tmp_path):
    """Neither from a trained encoder, nor by another loss from a checkpoint of its run."""
    model = BertForCL(bert_config, pooling="mean", loss="consistent_info_nce", **METHODS)
    if dropped:
        model.drop_heads()
    model.save_pretrained(tmp_path)
    settings = AutoModelForCL.from_pretrained(tmp_path, **given).settings
    expected = held or {"do_mlm": False, "mlm_weight": 0.1, "cutoff": None, "cutoff_ratio": 0.1}
    assert {name: getattr(settings, name) for name in METHODS} == expected


@pytest.mark.allow_warnings  # of transformers, when it resumes: tied weights are in the files once
def test_a_folder_says_what_it_was_trained_with_and_the_next_one_what_it_was(tmp_path):
    (tmp_path / "pairs.csv").write_text(
        "\n".join(["anchor,positive", *(f"{a},{b}" for a, b in pairwise(SENTENCES * 3))])
    )
    given = ["--train_file", str(tmp_path / "pairs.csv"), "--save_steps", "2", "--loss", "info_nce"]
    flags = ["--cutoff", "token", "--cutoff_ratio", "0.3", "--do_mlm", "true", "--output_dir", str(tmp_path / "cut")]

    def card_of(name):
        folder = tmp_path / name
        config, training = (json.loads((folder / x).read_text()) for x in ("config.json", "training_metadata.json"))
        added = {name: value for name, value in training["loss"]["settings"].items() if name in METHODS}
        assert {name: config["contrastive"][name] for name in ("cutoff", "do_mlm")} == {"cutoff": None, "do_mlm": False}
        return training["method"], added, write_card(folder).read_text()

    load("run_cutoff").main([*tiny(*given), *flags])
    method, added, card = card_of("cut")
    assert (method, added) == ("Cutoff", {"do_mlm": True, "mlm_weight": 0.1, "cutoff": "token", "cutoff_ratio": 0.3})
    assert "method: Cutoff." in card
    weights = load_file(tmp_path / "cut" / "model.safetensors")
    load("run_cutoff").main([*tiny(*given), *flags, "--resume_from_checkpoint", str(tmp_path / "cut" / "checkpoint-2")])
    assert card_of("cut")[:2] == (method, added)
    resumed = load_file(tmp_path / "cut" / "model.safetensors")
    assert all(torch.equal(weights[name], resumed[name]) for name in weights)
    for output, base in {"next": "cut", "other": "cut/checkpoint-2"}.items():
        own = ["--model_name_or_path", str(tmp_path / base), "--output_dir", str(tmp_path / output)]
        load("train").main(tiny(*given, *own))
        method, added, card = card_of(output)
        assert (method, added) == ("InfoNCE on pairs", {"do_mlm": False})
        assert "Cutoff" not in card
