"""Prompts: training, the saved folder and sentence-transformers put the same before a text, and pool the same of it."""

import json
from copy import deepcopy

import numpy as np
import pytest
import torch
from datasets import Dataset
from transformers import BertModel

from conftest import SENTENCES, save_both
from contrastive_st import BertForCL, InputError, PairCollator, SentenceEncoder, tokenize
from contrastive_st.data import DropoutPairCollator, SentenceCorpus, train_word_tokenizer
from contrastive_st.models import StaticConfig, StaticEncoder
from contrastive_st.models.base import text_hashes
from contrastive_st.models.protocol import open_encoder
from contrastive_st.models.wrapped import contrastive
from contrastive_st.static_vectors import StaticVectors
from contrastive_st.tokens import prompt_length

PROMPTS = {"query": "the cat ", "document": "town: "}
POOLINGS = ("mean", "max", "cls_before_pooler", "last", "avg_first_last", "avg_top2")


@pytest.fixture(scope="module")
def peers():
    return pytest.importorskip("sentence_transformers")


def theirs(peers, folder, config, tokenizer, pooling="mean", include_prompt=False, **use):
    """A folder that sentence-transformers made and saved."""
    save_both(BertModel(config), tokenizer, folder / "bert")
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.sentence_transformer.modules import Pooling

    transformer = Transformer(str(folder / "bert"), max_seq_length=14)
    modules = [transformer, Pooling(config.hidden_size, pooling, include_prompt=include_prompt)]
    model = peers.SentenceTransformer(modules=modules, device="cpu", **use)
    model.save_pretrained(str(folder / "theirs"), create_model_card=False)
    return folder / "theirs"


def assert_equal_vectors(peers, folder, encoder=None):
    """As queries, as documents, with the default prompt, with one that is given and with none, padding in the batch."""
    peer = peers.SentenceTransformer(str(folder), device="cpu")
    encoder = encoder or SentenceEncoder(folder)
    for how in ("encode_query", "encode_document", "encode"):
        wanted = getattr(peer, how)(SENTENCES, show_progress_bar=False)
        np.testing.assert_allclose(getattr(encoder, how)(SENTENCES), wanted, atol=1e-5, err_msg=how)
    for prompt in ("", "a dog: "):
        wanted = peer.encode(SENTENCES, prompt=prompt, show_progress_bar=False)
        np.testing.assert_allclose(encoder.encode(SENTENCES, prompt=prompt), wanted, atol=1e-5, err_msg=repr(prompt))


@pytest.mark.allow_warnings
@pytest.mark.parametrize("pooling", ["mean", "mean_sqrt_len_tokens"])
def test_a_model_of_theirs_that_is_wrapped_gives_their_vectors(peers, pooling, bert_config, tokenizer, tmp_path):
    folder = theirs(peers, tmp_path, bert_config, tokenizer, pooling, prompts=PROMPTS)
    assert_equal_vectors(peers, folder, SentenceEncoder(peers.SentenceTransformer(str(folder), device="cpu")))
    assert_equal_vectors(peers, folder)


@pytest.mark.allow_warnings
@pytest.mark.parametrize(("pooling", "include_prompt"), [*((pooling, False) for pooling in POOLINGS), ("mean", True)])
def test_a_folder_made_here_gives_the_same_vectors_there(
    peers, pooling, include_prompt, bert_config, tokenizer, tmp_path
):
    model = BertForCL(bert_config, pooling=pooling, prompts=PROMPTS, default_prompt_name="query",
                      include_prompt=include_prompt, truncate_dim=6)  # fmt: skip
    save_both(model, tokenizer, tmp_path)
    made = SentenceEncoder(model, tokenizer)
    assert made.encode("a dog").shape == (6,)
    assert_equal_vectors(peers, tmp_path, made)
    assert_equal_vectors(peers, tmp_path)
    saved = json.loads((tmp_path / "config_sentence_transformers.json").read_text())
    assert (saved["prompts"], saved["default_prompt_name"], saved["truncate_dim"]) == (PROMPTS, "query", 6)


def pairs():
    return Dataset.from_dict({"anchor": SENTENCES[:4], "positive": SENTENCES[4:]})


@pytest.mark.parametrize("include_prompt", [False, True])
def test_training_makes_the_vectors_of_the_saved_encoder(include_prompt, bert_config, tokenizer):
    prompts = {"anchor": PROMPTS["query"], "positive": PROMPTS["document"]}
    model = BertForCL(bert_config, pooling="mean", prompts=PROMPTS, include_prompt=include_prompt).eval()
    rows = tokenize(pairs(), tokenizer, 16, prompts=prompts)
    batch = PairCollator(tokenizer)(list(rows))
    encoder = SentenceEncoder(model, tokenizer)
    wanted = np.stack([encoder.encode_query(SENTENCES[:4]), encoder.encode_document(SENTENCES[4:])], 1)
    for bucketed in (False, True):
        model.length_bucketing = bucketed
        with torch.no_grad():
            views = model(**batch).views
        np.testing.assert_allclose(views.numpy(), wanted, atol=1e-5)


@pytest.mark.allow_warnings
@pytest.mark.parametrize("bucketed", [False, True])
def test_prompts_of_other_lengths_are_left_out_of_a_module_of_theirs(peers, bucketed, bert_config, tokenizer, tmp_path):
    """Its pooling takes one length for a whole batch."""
    prompts = {"query": "the cat sat on the ", "document": "a ", "none": ""}
    folder = theirs(peers, tmp_path, bert_config, tokenizer, prompts=prompts)
    module = peers.SentenceTransformer(str(folder), device="cpu").eval()
    texts = Dataset.from_dict(dict.fromkeys(("anchor", "positive", "negative"), SENTENCES[:4]))
    rows = tokenize(texts, tokenizer, 14, prompts=dict(zip(texts.column_names, prompts.values(), strict=True)))
    model = contrastive(module)
    model.length_bucketing = bucketed
    with torch.no_grad():
        views = model(**PairCollator(tokenizer)(list(rows))).views.numpy()
    expected = [module.encode(SENTENCES[:4], prompt=prompt, show_progress_bar=False) for prompt in prompts.values()]
    np.testing.assert_allclose(views, np.stack(expected, 1), atol=1e-5)


def test_the_mask_leaves_out_the_prompt_and_nothing_else(tokenizer):
    rows = tokenize(pairs(), tokenizer, 16, prompts={"positive": "the cat "})
    batch = PairCollator(tokenizer)(list(rows))
    assert rows["prompt_length"][0] == [0, 3]  # [CLS] the cat
    for row, ids, mask in zip(rows, batch["input_ids"], batch["text_mask"], strict=True):
        for before, own, view, kept in zip(row["prompt_length"], row["input_ids"], ids, mask, strict=True):
            assert kept.tolist() == [0] * before + [1] * (len(own) - before) + [0] * (len(view) - len(own))
    alone = tokenize(pairs().select_columns("anchor"), tokenizer, 16, prompts="the cat ")
    twice = DropoutPairCollator(tokenizer)(list(alone))
    assert twice["text_mask"].shape == twice["input_ids"].shape
    assert torch.equal(twice["text_mask"].sum(-1), twice["attention_mask"].sum(-1) - 3)
    assert "text_mask" not in PairCollator(tokenizer)(list(tokenize(pairs(), tokenizer, 16)))


def test_a_corpus_from_disk_has_the_prompt(tokenizer, tmp_path):
    (tmp_path / "text.txt").write_text("\n".join(SENTENCES))
    corpus = SentenceCorpus(tmp_path / "text.txt", tokenizer, 16, prompt="the cat ")
    wanted = tokenize(Dataset.from_dict({"text": SENTENCES}), tokenizer, 16, prompts="the cat ")
    assert [(row["input_ids"], row["prompt_length"]) for row in corpus] == [
        (row["input_ids"], row["prompt_length"]) for row in wanted
    ]


def test_equal_texts_are_equal_under_every_prompt(bert_config, tokenizer):
    """A document that is an anchor's own text is no negative of it."""
    texts = Dataset.from_dict({"a": ["a dog", "the town", "rain"], "b": ["a dog", "the town", "the rain"],
                               "c": ["a dog", "quiet town", "a book"]})  # fmt: skip
    rows = tokenize(texts, tokenizer, 16, prompts={"a": "the cat ", "b": "town: "})
    batch = PairCollator(tokenizer)(list(rows))
    hashes = text_hashes(batch["input_ids"], batch["attention_mask"], batch["text_mask"])
    plain = PairCollator(tokenizer)(list(tokenize(texts, tokenizer, 16)))
    assert torch.equal(hashes, text_hashes(plain["input_ids"], plain["attention_mask"]))
    assert len(set(hashes.flatten().tolist())) == 6


def test_prompts_are_counted_as_sentence_transformers_counts_them(tokenizer):
    assert prompt_length(tokenizer, "") == 0
    assert prompt_length(tokenizer, "the cat ") == 3
    words = train_word_tokenizer(SENTENCES)  # no marks of start and end
    assert prompt_length(words, "the cat ") == 2
    with pytest.raises(InputError, match="max_length"):
        prompt_length(tokenizer, "the cat ", 4)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"prompts": ["query"]}, "give a text for each name"),
        (
            {"prompts": PROMPTS, "default_prompt_name": "topic"},
            "unknown default_prompt_name 'topic'; choose one of query, document",
        ),
        ({"truncate_dim": 0}, "truncate_dim 0"),
        ({"include_prompt": False}, "does not support include_prompt=False"),
    ],
)
def test_bad_settings_are_one_line(settings, words, bert_config):
    with pytest.raises(InputError, match=words):
        BertForCL(bert_config, **settings)


@pytest.mark.allow_warnings
def test_a_static_model_with_prompts_or_a_cut_is_opened_with_them(peers, tmp_path):
    words = train_word_tokenizer(SENTENCES)
    for name, use in {"plain": {}, "prompted": {"prompts": PROMPTS}, "cut": {"truncate_dim": 5}}.items():
        torch.manual_seed(0)
        save_both(StaticEncoder(StaticConfig(len(words), 8), **use), words, tmp_path / name)
        encoder = open_encoder(tmp_path / name)
        assert isinstance(encoder._running, StaticVectors)  # without torch
        peer = peers.SentenceTransformer(str(tmp_path / name), device="cpu")
        for how in ("encode_query", "encode_document", "encode"):
            wanted = getattr(peer, how)(SENTENCES, show_progress_bar=False)
            np.testing.assert_allclose(getattr(encoder, how)(SENTENCES), wanted, atol=1e-5)
    prints = {open_encoder(tmp_path / name).fingerprint for name in ("plain", "prompted", "cut")}
    assert len(prints) == 3


def test_the_fingerprint_sees_prompts_and_what_is_pooled(bert_config, tokenizer):
    def mark(**settings):
        torch.manual_seed(0)
        return SentenceEncoder(BertForCL(deepcopy(bert_config), pooling="mean", **settings), tokenizer).fingerprint

    given = [{}, {"prompts": PROMPTS}, {"prompts": {"query": "the cat "}},
             {"prompts": PROMPTS, "include_prompt": False}, {"truncate_dim": 4}]  # fmt: skip
    assert len({mark(**settings) for settings in given}) == 5
    assert mark() == mark(prompts={"query": "", "document": ""}) == mark(include_prompt=False)  # nothing to leave out
