"""Decoders as encoders: every loader gives the same vectors, padding changes nothing, directions are what they say."""

import copy
import json

import numpy as np
import pytest
import torch
from plain import in_double, loop_loss
from refusals import refusal
from small_checkpoints import peer_vectors
from tokenizers.processors import TemplateProcessing
from transformers import AutoModel, AutoTokenizer, PreTrainedTokenizerFast

from conftest import SENTENCES, save_both
from contrastive_st import AutoModelForCL, SentenceEncoder
from contrastive_st.models import pool
from contrastive_st.models.auto import load_tokenizer
from contrastive_st.models.families import (
    DECODERS,
    Gemma2ForCL,
    Gemma3ForCL,
    GemmaForCL,
    LlamaForCL,
    Qwen3ForCL,
    family as class_of,
)

BIDIRECTIONAL = [False, True]
DECODERS = [class_of(kind) for kind in DECODERS]
by_name = {"ids": lambda family: family.__name__}


def config_of(family, vocabulary=60, **changes):
    """Two layers, the second of them in full where the family has windows; weights that tell tokens apart."""
    shape = {
        "vocab_size": vocabulary, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
        "num_key_value_heads": 1, "intermediate_size": 32, "max_position_embeddings": 32, "head_dim": 8,
        "pad_token_id": 0, "sliding_window": 4, "initializer_range": 0.3,
    }  # fmt: skip
    windows = {"layer_types": ["sliding_attention", "full_attention"], "use_sliding_window": True}
    windowed = family.config_class.model_type not in ("llama", "gemma", "mistral")
    return family.config_class(**shape, **(windows if windowed else {}), **changes)


def batch_of(rows=6, length=11):
    ids = torch.randint(5, 60, (rows, 2, length))
    lengths = torch.randint(1, length + 1, (rows, 2, 1))
    lengths[0] = length
    mask = (torch.arange(length) < lengths).long()
    return {"input_ids": ids * mask, "attention_mask": mask}


@pytest.mark.parametrize("bidirectional", BIDIRECTIONAL)
@pytest.mark.parametrize("family", [family for family in DECODERS if family is not Gemma2ForCL], **by_name)
def test_buckets_and_loss_equal_a_plain_loop_over_single_rows(family, bidirectional):
    """Rows one by one, without a padding token among them, are what no mask and no position can get wrong."""
    model = in_double(family(config_of(family), bidirectional=bidirectional))
    batch = batch_of()
    model(**batch).loss.backward()
    ours = {name: p.grad.clone() for name, p in model.named_parameters()}
    model.zero_grad()
    alone = [
        model.backbone(input_ids=ids[None, : mask.sum()]).last_hidden_state[0, -1]
        for ids, mask in zip(batch["input_ids"].flatten(0, 1), batch["attention_mask"].flatten(0, 1), strict=True)
    ]
    views = torch.stack(alone).view(6, 2, -1)
    torch.testing.assert_close(model.embed(**batch), views, rtol=1e-9, atol=1e-9)
    loop_loss(views, 0.05).backward()
    torch.testing.assert_close(ours, {n: p.grad for n, p in model.named_parameters()}, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("kind", ["gemma2", "gemma2, both directions", "embedding gemma"])
def test_means_of_gemmas_are_those_of_single_rows(kind):
    """Gemma 2's attention is in float32 always; `use_bidirectional_attention` of a config is heeded."""
    if kind == "embedding gemma":
        model = in_double(Gemma3ForCL(config_of(Gemma3ForCL, use_bidirectional_attention=True), pooling="mean"))
    else:
        model = Gemma2ForCL(config_of(Gemma2ForCL), pooling="mean", bidirectional=kind != "gemma2")
    batch = batch_of()
    within = {"rtol": 1e-9, "atol": 1e-9} if kind == "embedding gemma" else {"rtol": 1e-4, "atol": 1e-5}
    for row, mask, vector in zip(*(x.flatten(0, 1) for x in (*batch.values(), model.embed(**batch))), strict=True):
        states = model.backbone(input_ids=row[None, : mask.sum()]).last_hidden_state
        torch.testing.assert_close(states.mean(1)[0], vector, **within)


@pytest.mark.parametrize("family", DECODERS, **by_name)
def test_a_token_reads_what_the_direction_lets_it_read(family):
    ids = torch.randint(5, 60, (1, 3))  # shorter than the windows
    other = ids.clone()
    other[0, -1] = (ids[0, -1] + 1) % 50 + 5
    for bidirectional in BIDIRECTIONAL:
        model = family(config_of(family), bidirectional=bidirectional).double().eval()
        first, changed = (model.backbone(input_ids=x).last_hidden_state[0, 0] for x in (ids, other))
        assert torch.allclose(first, changed) is not bidirectional
        everything = torch.zeros(1, 1, 3, 3, dtype=torch.float64)  # a mask made by hand, which transformers takes as is
        if not bidirectional:
            everything += torch.full((3, 3), -1e9, dtype=torch.float64).triu(1)
        masks = dict.fromkeys(("full_attention", "sliding_attention"), everything)
        model.config.is_causal = None
        by_hand = model.backbone(
            input_ids=ids, attention_mask=masks if hasattr(model.config, "layer_types") else everything
        )
        torch.testing.assert_close(by_hand.last_hidden_state[0, 0], first, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("family", "pooling", "bidirectional"),
    [(family, "last", False) for family in DECODERS] + [(family, "mean", True) for family in DECODERS],
)
def test_every_loader_gives_the_same_embeddings(family, pooling, bidirectional, tokenizer, tmp_path):
    model = family(config_of(family, len(tokenizer)), pooling=pooling, bidirectional=bidirectional)
    save_both(model, tokenizer, tmp_path)
    tokenizer = load_tokenizer(tmp_path)  # transformers makes a family's own of some
    ours = SentenceEncoder(model, tokenizer).encode(SENTENCES)
    assert json.loads((tmp_path / "config.json").read_text())["is_causal"] is not bidirectional
    opened = AutoModelForCL.from_pretrained(tmp_path)
    assert type(opened) is family
    other = copy.deepcopy(model)
    other.config.is_causal = bidirectional
    for encoder in (SentenceEncoder(opened, tokenizer), SentenceEncoder(tmp_path)):
        np.testing.assert_allclose(encoder.encode(SENTENCES), ours, rtol=0, atol=1e-5)
        assert encoder.fingerprint != SentenceEncoder(other, tokenizer).fingerprint
    plain = AutoModel.from_pretrained(tmp_path).eval()
    batch = AutoTokenizer.from_pretrained(tmp_path)(SENTENCES, padding=True, truncation=True, return_tensors="pt")
    batch.pop("token_type_ids", None)
    with torch.no_grad():
        states = plain(**batch).last_hidden_state
    np.testing.assert_allclose(pool([states], batch["attention_mask"], pooling), ours, rtol=0, atol=1e-5)
    np.testing.assert_allclose(peer_vectors(tmp_path, SENTENCES), ours, rtol=0, atol=1e-5)


@pytest.fixture
def embedder(tmp_path, tokenizer):
    """A folder as Qwen3-Embedding is published: the tokenizer appends an end token and pads on the left."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Normalize, Pooling, Transformer

    backend = copy.deepcopy(tokenizer.backend_tokenizer)
    special = {"pad_token": "[PAD]", "eos_token": "<|end|>", "unk_token": "[UNK]"}
    end = PreTrainedTokenizerFast(tokenizer_object=backend, padding_side="left", model_max_length=16, **special)
    end.backend_tokenizer.post_processor = TemplateProcessing(
        single="$A <|end|>", special_tokens=[("<|end|>", end.eos_token_id)]
    )
    base = AutoModel.from_config(config_of(Qwen3ForCL, len(end)))
    base.save_pretrained(tmp_path / "base")
    end.save_pretrained(tmp_path / "base")
    transformer = Transformer(str(tmp_path / "base"), max_seq_length=8)
    prompts = {"query": "the cat sat ", "document": ""}
    model = SentenceTransformer(
        modules=[transformer, Pooling(16, pooling_mode="lasttoken"), Normalize()], prompts=prompts, device="cpu"
    )
    model.save(str(tmp_path / "embedder"), create_model_card=False)
    return tmp_path / "embedder", model


@pytest.mark.allow_warnings
def test_a_published_embedder_gives_the_vectors_of_sentence_transformers(embedder, tmp_path):
    folder, peer = embedder
    assert json.loads((folder / "tokenizer_config.json").read_text())["padding_side"] == "left"
    encoder = SentenceEncoder(folder)
    assert encoder.pooling == "last"
    assert isinstance(encoder.model, Qwen3ForCL)
    (row,) = encoder._tokenize(["the town was quiet and the rain ran far away"], "")
    assert len(row) == 8
    assert row[-1] == encoder.tokenizer.eos_token_id  # cut texts end with it too
    theirs = peer.encode(SENTENCES, show_progress_bar=False)
    np.testing.assert_allclose(encoder.encode(SENTENCES), theirs, rtol=0, atol=1e-5)
    queries = peer.encode_query(SENTENCES, show_progress_bar=False)
    np.testing.assert_allclose(encoder.encode_query(SENTENCES), queries, rtol=0, atol=1e-5)
    assert not np.allclose(queries, theirs, atol=1e-2)
    encoder.save_pretrained(tmp_path / "again")
    np.testing.assert_allclose(peer_vectors(tmp_path / "again", SENTENCES), theirs, rtol=0, atol=1e-5)
    assert AutoModelForCL.from_pretrained(folder).settings.pooling == "last"


def test_a_tokenizer_without_padding_token_pads_with_its_end_token(tmp_path, tokenizer):
    bare = copy.deepcopy(tokenizer)
    bare.add_special_tokens({"eos_token": "[SEP]"})
    bare.pad_token = None
    bare.save_pretrained(tmp_path)
    LlamaForCL(config_of(LlamaForCL, len(tokenizer))).save_pretrained(tmp_path)
    assert load_tokenizer(tmp_path).pad_token == "[SEP]"


@pytest.mark.parametrize(
    ("family", "changes", "settings", "words"),
    [
        (Qwen3ForCL, {}, {"pooling": "cls"}, "no pooler"),
        (Qwen3ForCL, {}, {"do_mlm": True}, "do_mlm is for encoders"),
        (Qwen3ForCL, {}, {"cutoff": "token"}, "cutoff is for encoders"),
        (Qwen3ForCL, {}, {"loss": "tsdae"}, "tsdae is for encoders"),
        (GemmaForCL, {"use_bidirectional_attention": True}, {}, "only to some batches"),
        (Gemma2ForCL, {"use_bidirectional_attention": True}, {"bidirectional": True}, "only to some batches"),
        (Gemma3ForCL, {"use_bidirectional_attention": True}, {"bidirectional": False}, "cannot be undone"),
    ],
)
def test_what_a_decoder_cannot_do_is_one_line(family, changes, settings, words):
    with refusal(words):
        family(config_of(family, **changes), **settings)
