"""Checkpoints saved under former names open: literal configs, keys of weights and code files."""

import copy
import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModel

from contrastive_st.errors import InputError
from contrastive_st.losses import (
    LOSSES,
    ConsistentInfoNCE,
    CosineSimilarityLoss,
    InfoNCE,
    MultiTaskLoss,
    RelationalDistillationLoss,
    SkipThoughtsLoss,
    SoftmaxLoss,
    TargetsLoss,
    TripletLoss,
    parse_loss,
)
from contrastive_st.models import (
    AutoModelForCL,
    BertForCL,
    InferSentBiLSTM,
    InferSentConfig,
    QuickThoughtsConfig,
    QuickThoughtsGRU,
    SkipThoughts,
    SkipThoughtsConfig,
)
from contrastive_st.models.configuration import ContrastiveConfig, upgrade_settings

# As `config.contrastive` was written whatever the objective: the fields of all of them
FORMER = {
    "angle_weight": 2.0, "context_size": 1, "context_weights": None, "distance_weight": 1.0,
    "hard_negative_weight": 0.0,
    "head_hidden": 0, "js_weight": 0.0, "label_smoothing": 0.0, "link": "logistic", "loss": "kl", "margin": 1.0,
    "num_labels": 3, "objective": "info_nce", "parts": ["u", "v", "abs(u-v)"], "similarity_weight": 0.0,
    "target_temperature": 1.0, "tasks": None, "temperature": 0.05, "with_head": True,
}  # fmt: skip
OF_BERT = {
    "pooling": "mean", "mlp_only_train": False, "do_mlm": False, "mlm_weight": 0.1, "cutoff": None, "cutoff_ratio": 0.1,
}  # fmt: skip
SINCE = {
    "template": None, "prompts": {}, "default_prompt_name": None, "truncate_dim": None, "include_prompt": True,
}  # fmt: skip
TASKS = {"near": {"objective": "next"}, "nli": {"objective": "classification", "parts": ["u", "v"], "head_hidden": 4}}
CASES = {
    "info_nce": ({"temperature": 0.1, "hard_negative_weight": 0.3}, InfoNCE(0.1, 0.3)),
    "info_nce_symmetric": ({}, InfoNCE(symmetric=True)),
    "info_nce ": ({"js_weight": 0.7}, ConsistentInfoNCE(js_weight=0.7)),
    "window": (
        {"loss": "block", "context_size": 2, "context_weights": [1.0, 0.5], "link": "hinge"},
        TargetsLoss("window", "block", 2, (1.0, 0.5), surrogate="hinge"),
    ),
    "tfidf": ({"target_temperature": 0.1}, TargetsLoss("tfidf", temperature=0.1)),
    "counts": ({"label_smoothing": 0.1}, TargetsLoss("counts", label_smoothing=0.1)),
    "tfidf_bin": ({}, TargetsLoss("tfidf_bin")),
    "relational": ({"similarity_weight": 1.0}, RelationalDistillationLoss(1.0)),
    "classification": ({"num_labels": 2, "head_hidden": 7}, SoftmaxLoss(2, head_hidden=7)),
    "regression": ({}, CosineSimilarityLoss()),
    "triplet": ({"margin": 0.5}, TripletLoss(0.5)),
    "multi_task": ({"tasks": TASKS}, MultiTaskLoss({"near": TargetsLoss(), "nli": SoftmaxLoss(3, ("u", "v"), 4)})),
    "skip_thoughts": ({}, SkipThoughtsLoss()),
}  # fmt: skip


@pytest.mark.parametrize("objective", CASES)
def test_former_settings_are_those_of_a_loss(objective):
    given, wanted = CASES[objective]
    settings = ContrastiveConfig.parse(upgrade_settings({**FORMER, **OF_BERT, "objective": objective.strip(), **given}))
    assert settings.loss == wanted
    assert settings.pooling == "mean"
    assert ContrastiveConfig.parse(json.loads(json.dumps(settings.section()))) == settings
    assert set(settings.section()) == {"loss", "with_head", *wanted.setting_names(), *OF_BERT, *SINCE}


def as_formerly(folder, **given):
    """Make a saved folder one of before: the flat settings of all objectives, and the old keys of a head's weights."""
    config = json.loads((folder / "config.json").read_text())
    config["contrastive"] = {**FORMER, **given}
    (folder / "config.json").write_text(json.dumps(config))
    weights = load_file(folder / "model.safetensors")
    renamed = {name.replace("loss_head.", "objective_head."): weight for name, weight in weights.items()}
    save_file(renamed, folder / "model.safetensors", metadata={"format": "pt"})
    return set(renamed) - set(weights)


@pytest.mark.parametrize("family", ["bert", "infersent", "skipthoughts"])
def test_heads_of_former_checkpoints_come_back(family, bert_config, tmp_path):
    if family == "bert":
        model = BertForCL(bert_config, loss="softmax", num_labels=2, pooling="mean")
        given = {**OF_BERT, "objective": "classification", "num_labels": 2}
    elif family == "infersent":
        model = InferSentBiLSTM(InferSentConfig(vocab_size=30, embedding_size=4, hidden_size=6))
        given = {"objective": "classification", "parts": ["u", "v", "abs(u-v)", "u*v"]}
    else:
        model = SkipThoughts(SkipThoughtsConfig(vocab_size=30, embedding_size=4, hidden_size=6))
        given = {"objective": "skip_thoughts"}
    model.save_pretrained(tmp_path)
    assert as_formerly(tmp_path, **given)
    opened = AutoModelForCL.from_pretrained(tmp_path)
    assert opened.settings == model.settings
    for name, weight in model.state_dict().items():
        assert torch.equal(opened.state_dict()[name], weight), name
    opened.save_pretrained(tmp_path / "again")
    assert "objective" not in json.loads((tmp_path / "again" / "config.json").read_text())["contrastive"]


def test_a_folder_with_former_code_files_opens_and_runs_none_of_them(tmp_path):
    model = QuickThoughtsGRU(QuickThoughtsConfig(vocab_size=30, embedding_size=4, hidden_size=6), targets="tfidf_bin")
    model.save_pretrained(tmp_path)
    as_formerly(tmp_path, objective="tfidf_bin")
    (tmp_path / "quickthoughts.py").unlink()
    for name in ("configuration_quickthoughts", "packing_quickthoughts", "modeling_quickthoughts"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('code of the folder ran')")
    config = json.loads((tmp_path / "config.json").read_text())
    config["auto_map"] = {
        "AutoConfig": "configuration_quickthoughts.QuickThoughtsConfig",
        "AutoModel": "modeling_quickthoughts.QuickThoughtsModel",
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    for opened in (AutoModel.from_pretrained(tmp_path), AutoModelForCL.from_pretrained(tmp_path)):
        assert type(opened) is QuickThoughtsGRU
        assert opened.settings.loss == TargetsLoss("tfidf_bin")
        assert torch.equal(opened.word_embeddings.weight, model.word_embeddings.weight)


def test_settings_are_parsed_once_and_stay_right(bert_config, tmp_path, monkeypatch):
    model = BertForCL(bert_config, loss="softmax", pooling="mean").train()
    parsed = []
    parse = ContrastiveConfig.parse.__func__
    counted = lambda kind, *given: parsed.append(kind) or parse(kind, *given)
    monkeypatch.setattr(ContrastiveConfig, "parse", classmethod(counted))
    model(torch.randint(5, 30, (4, 2, 6)), targets=torch.tensor([0, 1, 2, 0]))
    assert not parsed
    copied = copy.deepcopy(model)
    copied.drop_heads()
    assert (copied.settings.with_head, model.settings.with_head) == (False, True)
    assert copied.config.contrastive == copied.settings.section()
    copied.save_pretrained(tmp_path)
    assert BertForCL.from_pretrained(tmp_path).settings == copied.settings
    assert BertForCL.from_pretrained(tmp_path, loss="triplet").settings.loss == TripletLoss()  # nothing of the other


def test_a_config_holds_the_fields_of_its_own_loss(bert_config):
    model = BertForCL(bert_config, loss=TripletLoss(0.3), pooling="mean")
    assert model.config.contrastive == {"loss": "triplet", "margin": 0.3, "with_head": True, **OF_BERT, **SINCE}
    with pytest.raises(InputError, match=r"unknown setting temperature.*loss triplet"):
        BertForCL(model.config, temperature=0.1)


@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_comes_back_from_its_settings(name):
    needed = {
        "mixture": {"tasks": {"a": InfoNCE(0.3)}},
        "multi_task": {"tasks": {"a": InfoNCE(0.3)}},
        "matryoshka": {"inner": InfoNCE(0.3), "dims": (8, 4)},
    }
    loss = LOSSES[name](**needed.get(name, {}))
    assert parse_loss(json.loads(json.dumps(loss.settings()))) == loss


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"loss": ["info_nce"]}, "unknown loss"),
        ({"loss": "info_nce", "temperature": "hot"}, "are not valid"),
        ({"loss": "info_nce", "temperature": float("nan")}, "positive"),
        ({"loss": "triplet", "temperature": 1.0}, "no setting temperature"),
    ],
)
def test_damaged_settings_are_told_in_a_line(settings, words):
    with pytest.raises(InputError, match=words) as error:
        parse_loss(settings)
    assert "\n" not in str(error.value)
