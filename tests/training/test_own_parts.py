"""A user's own loss and own encoder: what is recorded, saved, resumed and opened."""

import json
import threading
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from datasets import Dataset
from safetensors.torch import load_file
from small_checkpoints import peer_vectors
from torch import nn
from transformers import AutoConfig, AutoModel, BertConfig, BertModel

from conftest import SENTENCES, save_both
from contrastive_st import (
    AutoModelForCL,
    BertForCL,
    ContrastiveTrainer,
    ContrastiveTrainingArguments,
    EncoderForCL,
    InfoNCE,
    InputError,
    Loss,
    MatryoshkaLoss,
    PairCollator,
    SentenceEncoder,
    SoftmaxLoss,
    tokenize,
)
from contrastive_st.losses import LOSSES, CallableLoss
from contrastive_st.models.families import family


def spread(views):
    return (views[:, 0] - views[:, 1]).square().sum(-1).mean()


class Scaled(nn.Module):
    """A loss with a weight of its own."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, views):
        return spread(views) * (1 + self.scale.square())


class Bag(nn.Module):
    def __init__(self, words):
        super().__init__()
        self.words, self.output = nn.Embedding(words, 8), nn.Linear(8, 6)
        self.register_buffer("shift", torch.zeros(6))

    def forward(self, input_ids, attention_mask):
        states = self.words(input_ids) * attention_mask[..., None]
        return self.output(states.sum(1) / attention_mask.sum(1, keepdim=True)) + self.shift


def trainer_for(model, tokenizer, folder, loss=None, steps=4, **changes):
    rows = Dataset.from_dict({"a": SENTENCES * 4, "b": (SENTENCES[1:] + SENTENCES[:1]) * 4})
    settings = {"per_device_train_batch_size": 4, "learning_rate": 1e-2, "save_steps": 2, "save_strategy": "steps"}
    settings |= {"lr_scheduler_type": "constant", "bf16": False, "report_to": "none", "disable_tqdm": True}
    return ContrastiveTrainer(
        model=model, loss=loss, args=ContrastiveTrainingArguments(str(folder), max_steps=steps, **settings | changes),
        train_dataset=tokenize(rows, tokenizer, 16), data_collator=PairCollator(tokenizer), processing_class=tokenizer,
    )  # fmt: skip


def seeded(make):
    torch.manual_seed(3)
    return make()


# --- Losses.


def test_a_checkpoint_opens_without_its_loss_and_is_saved_unchanged(tokenizer, bert_config, tmp_path):
    @dataclass(frozen=True)
    class Passing(Loss):
        name = "passing_margin"
        margin: float = 0.5

        def __call__(self, views, targets=None, *, text_hashes=None, gather=None):
            return (spread(views) - self.margin).relu()

    first, second = tmp_path / "a", tmp_path / "b"
    trainer = trainer_for(BertForCL(bert_config, pooling="mean"), tokenizer, first, Passing(0.25), steps=2)
    trainer.train()
    trainer.save_model()
    expected = SentenceEncoder(trainer.model, tokenizer).encode(SENTENCES)
    assert AutoModelForCL.from_pretrained(first).loss_fn == Passing(0.25)
    del LOSSES["passing_margin"]
    np.testing.assert_allclose(SentenceEncoder(first).encode(SENTENCES), expected, atol=1e-6)
    assert isinstance(AutoModel.from_pretrained(first), BertModel)
    model = AutoModelForCL.from_pretrained(first)
    model.save_pretrained(second)
    sections = [json.loads((folder / "config.json").read_text())["contrastive"] for folder in (first, second)]
    assert sections[0] == sections[1]
    assert (sections[0]["loss"], sections[0]["margin"]) == ("passing_margin", 0.25)
    with pytest.raises(InputError, match="passing_margin"):
        trainer_for(model, tokenizer, tmp_path / "c")
    assert isinstance(AutoModelForCL.from_pretrained(first, loss=InfoNCE(0.2)).loss_fn, InfoNCE)
    with pytest.raises(InputError, match="passing_margim"):
        AutoModelForCL.from_pretrained(first, loss="passing_margim")
    tokenizer.save_pretrained(first)
    np.testing.assert_allclose(peer_vectors(first, SENTENCES), expected, atol=1e-5)


def test_a_loss_inside_another_need_not_be_defined_either(bert_config):
    bert_config.contrastive = {"loss": "matryoshka", "inner": {"loss": "gone"}, "dims": [4], "pooling": "mean"}
    model = BertForCL(bert_config)
    assert model.config.contrastive["inner"] == {"loss": "gone"}
    with pytest.raises(InputError, match="'gone'"):
        _ = model.loss_fn


def test_a_loss_is_call_alone(tokenizer, bert_config, tmp_path):
    class Alone(Loss):
        def __call__(self, views, targets=None, *, text_hashes=None, gather=None):
            return spread(views)

    trainer = trainer_for(BertForCL(bert_config), tokenizer, tmp_path, Alone(), steps=2, logging_steps=1)
    trainer.train()
    assert trainer.model.config.contrastive["loss"] == "Alone"
    assert Alone().describe(8, 2) == "8 rows per step of 2 views each, compared by Alone"


def test_the_weights_of_a_loss_are_trained_and_resumed(tokenizer, bert_config, tmp_path):
    def run(folder, steps, resume=None):
        trainer = trainer_for(seeded(lambda: BertForCL(bert_config)), tokenizer, folder, Scaled(), steps, chunk_size=3)
        trainer.train(resume_from_checkpoint=resume)
        return trainer.model.state_dict()

    whole = run(tmp_path / "whole", 4)
    assert whole["loss_head.scale"] != 2.0
    run(tmp_path / "parts", 2)
    torch.testing.assert_close(run(tmp_path / "parts", 4, True), whole, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (lambda views: views.mean(-1), r"returned a tensor of shape \[4, 2\]"),
        (lambda views: 1.0, "returned a float"),
        (InfoNCE, "the class InfoNCE"),
        ("spread", "unknown loss 'spread'"),
        (3, "loss: a int"),
    ],
)
def test_what_is_no_loss_is_told_in_a_line(loss, message, tokenizer, bert_config, tmp_path):
    with pytest.raises(InputError, match=message):
        trainer_for(BertForCL(bert_config), tokenizer, tmp_path, loss, steps=1).train()


def test_the_names_of_the_package_cannot_be_taken():
    with pytest.raises(InputError, match="'triplet'"):
        type("Mine", (Loss,), {"name": "triplet"})

    def triplet(views):
        return views.sum()

    assert CallableLoss(triplet).name == "custom_triplet"


# --- Encoders.


def test_a_module_trains_and_is_saved(tokenizer, tmp_path):
    """And resumes: `tests/meetings`."""
    encoder = Bag(len(tokenizer))
    trainer = trainer_for(encoder, tokenizer, tmp_path / "whole", spread)
    trainer.train()
    trainer.save_model()
    saved = load_file(tmp_path / "whole" / "model.safetensors")
    torch.testing.assert_close(saved, dict(encoder.state_dict()), rtol=0, atol=0)
    assert (tmp_path / "whole" / "tokenizer.json").is_file()
    assert json.loads((tmp_path / "whole" / "config.json").read_text())["contrastive"]["loss"] == "spread"
    vectors = SentenceEncoder(encoder, tokenizer).encode(SENTENCES)
    assert vectors.shape == (len(SENTENCES), 6)
    ids = tokenizer(SENTENCES[2], return_tensors="pt")
    np.testing.assert_allclose(vectors[2], encoder(ids.input_ids, ids.attention_mask)[0].detach().numpy(), atol=1e-6)


def test_a_module_has_the_classifier_of_a_loss(tokenizer):
    model = EncoderForCL(Bag(len(tokenizer)), SoftmaxLoss())
    assert model.loss_head.layers[0].in_features == 3 * 6


def test_a_sentence_transformer_is_saved_whole(tokenizer, bert_config, tmp_path):
    sentence_transformers = pytest.importorskip("sentence_transformers")
    torch.manual_seed(1)
    save_both(BertForCL(bert_config, pooling="mean"), tokenizer, tmp_path / "base")

    def opened():
        model = sentence_transformers.SentenceTransformer(str(tmp_path / "base"), device="cpu")
        model.append(sentence_transformers.models.Normalize())
        return model

    def run(folder, steps, resume=None):
        model = opened()
        trainer = trainer_for(model, tokenizer, folder, InfoNCE(0.1), steps, chunk_size=3)
        trainer.train(resume_from_checkpoint=resume)
        trainer.save_model()
        return model

    before, model = opened().encode(SENTENCES), run(tmp_path / "whole", 4)
    assert abs(before - model.encode(SENTENCES)).max() > 1e-3
    reopened = sentence_transformers.SentenceTransformer(str(tmp_path / "whole"), device="cpu")
    assert [type(module).__name__ for module in reopened] == [type(module).__name__ for module in model]
    np.testing.assert_allclose(reopened.encode(SENTENCES), model.encode(SENTENCES), atol=1e-6)
    np.testing.assert_allclose(
        SentenceEncoder(tmp_path / "whole").encode(SENTENCES), model.encode(SENTENCES), atol=1e-5
    )
    run(tmp_path / "parts", 2)
    np.testing.assert_allclose(run(tmp_path / "parts", 4, True).encode(SENTENCES), model.encode(SENTENCES), atol=1e-6)


def test_an_encoder_of_transformers_with_a_pooling_function(tokenizer, bert_config, tmp_path):
    bert, first = BertModel(bert_config), lambda states, mask: states[:, 0]
    with pytest.raises(InputError, match="record"):
        trainer_for(bert, tokenizer, tmp_path)
    trainer = trainer_for(EncoderForCL(bert, pooling=first), tokenizer, tmp_path, steps=2)
    trainer.train()
    trainer.save_model()
    again = EncoderForCL(AutoModel.from_pretrained(tmp_path), pooling=first)
    ours, theirs = (SentenceEncoder(model, tokenizer).encode(SENTENCES) for model in (trainer.model, again))
    np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_a_pooling_function_over_a_folder_that_records_another_pooling(tokenizer, bert_config, tmp_path):
    """The folder says no longer how its base pooled: it would be opened so."""
    base = save_both(BertForCL(bert_config, pooling="mean"), tokenizer, tmp_path / "base")
    model = EncoderForCL(AutoModel.from_pretrained(base), pooling=lambda states, mask: states[:, 0])
    save_both(model, tokenizer, tmp_path / "again")
    with pytest.raises(InputError, match="pool"):
        SentenceEncoder(tmp_path / "again")


def test_layers_that_are_frozen_in_evaluation_mode_stay_so(tokenizer):
    module = Bag(len(tokenizer)).train()
    module.output.eval()
    SentenceEncoder(module, tokenizer).encode(SENTENCES)
    EncoderForCL(module, SoftmaxLoss(num_labels=3))
    assert (module.training, module.words.training, module.output.training) == (True, True, False)


def test_an_encoder_whose_library_writes_no_config_is_saved(tokenizer, bert_config, tmp_path):
    class Saves(Bag):
        def save_pretrained(self, folder):
            (folder / "weights").write_text("of its own")

    EncoderForCL(Saves(len(tokenizer)), pooling=lambda states, mask: states[:, 0]).save_pretrained(tmp_path / "own")
    assert [path.name for path in (tmp_path / "own").iterdir()] == ["weights"]


class Further(BertForCL):
    """Vectors of a subclass of a family, with a layer of its own."""

    def __init__(self, config, **settings):
        super().__init__(config, **settings)
        self.further = nn.Linear(config.hidden_size, config.hidden_size)
        self.post_init()

    def _encode(self, attention_mask, **rows):
        output = super()._encode(attention_mask, **rows)
        output.pooler_output = self.further(output.pooler_output)
        return output


def test_a_registered_class_opens_by_its_name(tokenizer, bert_config, tmp_path):
    config_class = type("FurtherConfig", (BertConfig,), {"model_type": "further-bert"})
    kind = type("FurtherBert", (Further,), {"config_class": config_class})
    assert family("further-bert") is None
    AutoConfig.register("further-bert", config_class)
    AutoModel.register(config_class, kind)
    settings = {key: x for key, x in bert_config.to_dict().items() if key != "model_type"}
    encoder = SentenceEncoder(kind(config_class(**settings), pooling="mean"), tokenizer)
    encoder.save_pretrained(tmp_path / "a")
    expected = encoder.encode(SENTENCES)
    for opened in (
        SentenceEncoder(tmp_path / "a"),
        SentenceEncoder(AutoModel.from_pretrained(tmp_path / "a"), tokenizer),
    ):
        assert type(opened.model) is kind
        np.testing.assert_array_equal(opened.encode(SENTENCES), expected)


def test_a_class_whose_code_is_not_in_the_folder_is_named(tokenizer, bert_config, tmp_path, caplog):
    class Doubled(BertForCL):
        def _encode(self, attention_mask, **rows):
            output = super()._encode(attention_mask, **rows)
            output.pooler_output = output.pooler_output * 2
            return output

    for kind in (Doubled, Further):
        encoder = SentenceEncoder(kind(bert_config, pooling="mean"), tokenizer)
        caplog.clear()
        for folder in ("a", "b"):
            encoder.save_pretrained(tmp_path / kind.__name__ / folder)
        assert [f"open it with {kind.__name__}.from_pretrained" in text for text in caplog.messages] == [True]
        again = SentenceEncoder(kind.from_pretrained(tmp_path / kind.__name__ / "a"), tokenizer)
        np.testing.assert_array_equal(again.encode(SENTENCES), encoder.encode(SENTENCES))
    caplog.clear()
    SentenceEncoder(tmp_path / "Doubled" / "a").save_pretrained(tmp_path / "plain")
    SentenceEncoder(tmp_path / "plain")
    assert ["without the code of Doubled" in text for text in caplog.messages] == [True]
    with pytest.raises(InputError, match=r"weights of the class Further .* Further.from_pretrained"):
        AutoModelForCL.from_pretrained(tmp_path / "Further" / "a")


def test_a_loss_that_is_an_object_is_used_itself(bert_config, tokenizer, tmp_path):
    """A callback may change it; it may hold what cannot be copied."""

    class Held:
        def __init__(self):
            self.lock = threading.Lock()

        def __call__(self, views):
            return spread(views)

    folder = save_both(BertForCL(bert_config, pooling="mean"), tokenizer, tmp_path)
    assert AutoModelForCL.from_pretrained(folder, loss=(loss := Held())).loss_fn.function is loss


@dataclass(frozen=True)
class StartsAt(Loss):
    """Its head starts with a weight of its own."""

    start: float = 3.0
    head: nn.Module | None = None

    def make_head(self, dim):
        head = nn.Module()
        head.weight = nn.Parameter(torch.tensor(self.start))
        return head

    def __call__(self, views, targets=None, **others):
        return self.head.weight * spread(views)


@pytest.mark.parametrize("way", ["config", "folder", "afterwards", "a checkpoint with others"])
def test_weights_of_a_loss_start_as_they_are(way, tokenizer, bert_config, tmp_path):
    """transformers draws anew what a folder lacks, in uninitialised memory if it does not know the layer."""
    folder = save_both(BertForCL(bert_config, pooling="mean"), tokenizer, tmp_path / "base")
    if way == "a checkpoint with others":
        trained = Scaled()
        nn.init.constant_(trained.scale, 7.0)
        trainer_for(BertForCL(bert_config, pooling="mean"), tokenizer, tmp_path, loss=trained, steps=2).train()
        folder = tmp_path / "checkpoint-2"
    for loss in (Scaled(), StartsAt(), MatryoshkaLoss(Scaled(), dims=[8, 16])):
        if way == "config":
            model = BertForCL(bert_config, pooling="mean", loss=loss)
        elif way == "afterwards":
            model = AutoModelForCL.from_pretrained(folder)
            model.use_loss(loss)
        else:
            model = AutoModelForCL.from_pretrained(folder, loss=loss)
        (weight,) = model.loss_head.parameters()
        if isinstance(loss, MatryoshkaLoss):
            assert weight is loss.inner.function.scale
            assert weight.item() == 2
        elif isinstance(loss, Scaled):
            assert weight is loss.scale
            assert weight.item() == pytest.approx(7 if way == "a checkpoint with others" else 2, abs=0.1)
        else:
            assert weight.item() == 3


@pytest.mark.parametrize(
    ("forward", "message"),
    [
        (lambda self, input_ids, attention_mask: self.words(input_ids), "one vector per row"),
        (lambda self, input_ids, attention_mask: [1.0], "returned a list"),
    ],
)
def test_a_module_without_vectors_is_told_in_a_line(forward, message, tokenizer, tmp_path, monkeypatch):
    monkeypatch.setattr(Bag, "forward", forward)
    with pytest.raises(InputError, match=message):
        trainer_for(Bag(len(tokenizer)), tokenizer, tmp_path, steps=1).train()


def test_what_is_no_module_is_refused(tokenizer, tmp_path):
    with pytest.raises(InputError, match="model"):
        trainer_for({}, tokenizer, tmp_path)


def test_a_batch_that_does_not_suit_the_recorded_loss_names_it(bert_config, tokenizer, tmp_path):
    """A student records its distillation; a user who fine-tunes it on pairs has not chosen that loss."""
    BertForCL(bert_config, loss="relational_distillation").save_pretrained(tmp_path / "base")
    batch = PairCollator(tokenizer)([{"input_ids": [[2, i, 3], [2, i + 1, 3]]} for i in (5, 7)])
    with pytest.raises(InputError, match=r"relational_distillation.*loss=\"info_nce\""):
        AutoModelForCL.from_pretrained(tmp_path / "base")(**batch)
    with pytest.raises(InputError, match=r"TeacherCollator$"):
        AutoModelForCL.from_pretrained(tmp_path / "base", loss="relational_distillation")(**batch)
    assert AutoModelForCL.from_pretrained(tmp_path / "base", loss="info_nce")(**batch).loss.isfinite()
