"""PromptBERT: the state at the [MASK] of a template, two templates as two views, the template's own state taken off."""

import json
from copy import deepcopy

import numpy as np
import pytest
import torch
from datasets import Dataset
from scripts import load
from sentence_transformers import SentenceTransformer
from torch.nn import functional
from transformers import AutoTokenizer, DistilBertConfig, RobertaConfig

from conftest import SENTENCES
from contrastive_st import BertForCL, InputError, RobertaForCL, SentenceEncoder
from contrastive_st.data import TemplatePairCollator, read_template, tokenize, with_template
from contrastive_st.hub.convert import convert
from contrastive_st.hub.metadata import CheckpointMetadata
from contrastive_st.models import DistilBertForCL
from contrastive_st.models.students import student_of

TEXTS = ("the cat [X] ran [MASK] old", "a dog [X] ran [MASK] town")
TINY = ["--num_layers", "1", "--hidden_size", "16", "--per_device_train_batch_size", "4", "--max_steps", "4"]
TINY += ["--disable_tqdm", "true", "--learning_rate", "1e-3", "--logging_steps", "1", "--save_steps", "2"]


@pytest.fixture
def templates(tokenizer):
    return tuple(read_template(text, tokenizer) for text in TEXTS)


@pytest.fixture
def batch(tokenizer, templates):
    own = with_template(tokenizer, templates[0], 20)
    rows = [{"input_ids": own(text, truncation=True)["input_ids"]} for text in SENTENCES]
    return dict(TemplatePairCollator(own, templates=templates)(rows))


def make(config, templates, kind=BertForCL, **settings):
    config = deepcopy(config)
    for name in ("hidden_dropout_prob", "attention_probs_dropout_prob", "dropout", "attention_dropout"):
        if hasattr(config, name):
            setattr(config, name, 0.0)
    return kind(config, pooling="mask", template=templates[0].shape, **settings)


def test_two_templates_stand_around_the_same_text(tokenizer, templates, batch):
    first, second = (tokenizer.batch_decode(batch["input_ids"][:, view]) for view in (0, 1))
    for text, one, other in zip(SENTENCES[:3], first, second, strict=False):
        assert one.startswith(f"[CLS] the cat {text} ran [MASK] old [SEP]"), one
        assert other.startswith(f"[CLS] a dog {text} ran [MASK] town [SEP]"), other


def test_rows_of_one_template_are_not_taken_for_those_of_another(tokenizer, templates):
    texts = Dataset.from_dict({"text": SENTENCES})
    rows = [tokenize(texts, with_template(tokenizer, own, 20), 20)["input_ids"][0] for own in templates]
    assert rows[0] != rows[1]


def plain_view(backbone, head, tokens, template):
    """As published: h - h' by the head; h' of the template's tokens alone, at their position ids."""
    before, after, behind = template.shape
    positions = torch.arange(len(tokens))
    kept = torch.cat([positions[:before], positions[len(tokens) - after :]])
    state = backbone(tokens[None]).last_hidden_state[0, len(tokens) - 1 - behind]
    alone = backbone(tokens[None, kept], position_ids=kept[None]).last_hidden_state[0, -1 - behind]
    return torch.tanh(head(state - alone))


def test_loss_and_gradients_equal_a_plain_loop(bert_config, templates, batch):
    model = make(bert_config, templates).double().train()
    loss = model(**batch).loss
    loss.backward()
    gradients = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    views = []
    for ids, masks in zip(batch["input_ids"], batch["attention_mask"], strict=True):
        rows = [row[mask.bool()] for row, mask in zip(ids, masks, strict=True)]
        both = zip(rows, templates, strict=True)
        views.append([plain_view(model.bert, model.bert.pooler.dense, row, template) for row, template in both])
    total = 0
    for i, (anchor, _) in enumerate(views):
        scores = torch.stack([functional.cosine_similarity(anchor, other, 0) / 0.05 for _, other in views])
        total = total - scores.log_softmax(0)[i]
    plain = total / len(views)
    plain.backward()
    assert loss.item() == pytest.approx(plain.item(), abs=1e-10)
    assert set(gradients) == {name for name, p in model.named_parameters() if p.grad is not None}
    for name, p in model.named_parameters():
        if name in gradients:
            torch.testing.assert_close(gradients[name], p.grad, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("family", ["roberta", "distilbert"])
def test_other_families_put_the_template_in_its_places_too(family, tokenizer, templates, batch):
    """RoBERTa numbers positions by its padding; DistilBERT has no head."""
    shape = {"vocab_size": len(tokenizer), "pad_token_id": 0, "max_position_embeddings": 40}
    if family == "roberta":
        config = RobertaConfig(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8, **shape)
        model = make(config, templates, RobertaForCL).double().train()
    else:
        config = DistilBertConfig(dim=16, n_layers=1, n_heads=2, hidden_dim=8, **shape)
        model = make(config, templates, DistilBertForCL).double().train()
    row = batch["input_ids"][3, 0][batch["attention_mask"][3, 0].bool()]
    before, after, behind = templates[0].shape
    state = model.backbone(row[None]).last_hidden_state[0, -1 - behind]
    mask = torch.ones_like(row)
    mask[before : len(row) - after] = 0
    alone = model.backbone(row[None], attention_mask=mask[None]).last_hidden_state[0, -1 - behind]
    wanted = state - alone
    if family == "roberta":
        wanted = torch.tanh(model.projection.dense(wanted))
    torch.testing.assert_close(model.embed(batch["input_ids"], batch["attention_mask"])[3, 0], wanted)


def test_in_use_the_embedding_is_the_state_at_the_mask(bert_config, tokenizer, templates, batch):
    model = make(bert_config, templates).eval()
    own = with_template(tokenizer, templates[0], 20)
    text = "a cat [MASK] and a dog"  # its own [MASK] is not the template's
    ids = torch.tensor([own(text)["input_ids"]])
    place = (ids[0] == tokenizer.mask_token_id).nonzero()[-1, 0]
    wanted = model.bert(ids).last_hidden_state[0, place]
    np.testing.assert_allclose(SentenceEncoder(model, own).encode(text), wanted.detach().numpy(), atol=1e-6)


def test_a_loss_that_is_no_contrast_trains_the_embedding_as_it_is_used(bert_config, templates, batch):
    ids, mask = batch["input_ids"], batch["attention_mask"]
    scored = make(bert_config, templates, loss="cosine_similarity")
    assert torch.equal(scored.train().embed(ids, mask), scored.eval().embed(ids, mask))
    assert not scored.projection.dense.weight.requires_grad
    contrast = make(bert_config, templates, loss="matryoshka", inner={"loss": "info_nce"}, dims=(16, 8))
    assert not torch.allclose(contrast.train().embed(ids, mask), contrast.eval().embed(ids, mask))
    assert contrast.projection.dense.weight.requires_grad


def test_a_student_keeps_the_template_in_a_smaller_vocabulary(bert_config, tokenizer, templates):
    own = with_template(tokenizer, templates[0], 20)
    teacher = SentenceEncoder(make(bert_config, templates), own)
    student = student_of(teacher, [1], vocabulary=["cat", "dog"])
    assert student.tokenizer.decode(student.tokenizer("dog")["input_ids"]) == "[CLS] the cat dog ran [MASK] old [SEP]"
    small = len(student.tokenizer)
    assert small < len(tokenizer)
    assert student.encode("dog").shape == (16,)


def run(text_file, output, *args):
    load("run_promptbert").main(["--train_file", str(text_file), "--output_dir", str(output), *TINY, *args])


@pytest.fixture
def text_file(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("\n".join(SENTENCES), encoding="utf-8")
    return path


def test_a_run_resumes_and_its_folder_opens_with_the_template(text_file, tmp_path, monkeypatch):
    monkeypatch.delenv("CONTRASTIVE_ST_DATA", raising=False)
    folder = tmp_path / "out"
    run(text_file, folder, "--templates", *TEXTS)
    encoder = SentenceEncoder(folder)
    vectors = encoder.encode(SENTENCES)
    run(text_file, folder, "--templates", *TEXTS, "--resume_from_checkpoint", str(folder / "checkpoint-2"))
    np.testing.assert_array_equal(SentenceEncoder(folder).encode(SENTENCES), vectors)
    assert encoder.pooling == "mask"
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert tokenizer.decode(tokenizer("a dog")["input_ids"]).startswith("[CLS] the cat a dog ran")
    encoder.save_pretrained(tmp_path / "again")
    np.testing.assert_array_equal(SentenceEncoder(tmp_path / "again").encode(SENTENCES), vectors)
    long = encoder.encode(" ".join(SENTENCES))
    assert np.isfinite(long).all()


def test_other_loaders_are_not_led_astray(text_file, tmp_path, monkeypatch):
    monkeypatch.delenv("CONTRASTIVE_ST_DATA", raising=False)
    folder = tmp_path / "out"
    run(text_file, folder, "--templates", TEXTS[0])
    with pytest.raises(ValueError, match="MaskPooling"):
        SentenceTransformer(str(folder))
    checkpoint = CheckpointMetadata(folder)
    assert not checkpoint.opens_in_sentence_transformers
    assert checkpoint.method.name == "PromptBERT"
    with pytest.raises(InputError, match="only be written in this package's layout"):
        convert(folder, tmp_path / "converted", "simcse")
    with pytest.raises(InputError, match="no room besides the 7 tokens"):
        SentenceEncoder(folder, max_length=7)
    config = json.loads((folder / "config.json").read_text())
    assert config["contrastive"]["template"] == [3, 4, 2]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--templates", "a [MASK]"], "needs one [X]"),
        (["--templates", "[MASK] is [X]"], "after it, one [MASK]"),
        (["--templates", TEXTS[0], "the [X] is [MASK]"], "the same numbers"),
        (["--templates", *TEXTS, TEXTS[0]], "one or two"),
        (["--templates", *TEXTS, "--pooling", "mean"], "leave out --pooling"),
        (["--templates", *TEXTS, "--max_length", "7"], "template of 7 tokens 7: give a whole number above 7"),
        (["--templates", *TEXTS, "--prompts", "query=a "], "does not work with prompts"),
        (["--pooling", "mask"], "leave out --pooling"),
    ],
)
def test_bad_templates_are_one_line(args, words, text_file, tmp_path):
    with pytest.raises(InputError) as caught:
        run(text_file, tmp_path / "out", *args)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
