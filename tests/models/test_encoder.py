"""Texts in, vectors out."""

import copy
import pickle

import datasets
import numpy as np
import pandas
import pyarrow
import pytest
import torch
from sentence_transformers import SentenceTransformer

from conftest import SENTENCES
from contrastive_st import BertForCL, InputError, SentenceEncoder
from contrastive_st.buckets import bucket_rows, padded_widths
from contrastive_st.models.protocol import open_encoder
from contrastive_st.vectors import SIMILARITIES, unit_vectors


@pytest.fixture
def encoder(bert_config, tokenizer):
    return SentenceEncoder(BertForCL(bert_config, pooling="mean"), tokenizer)


def test_long_texts_are_cut_as_in_training_and_empty_ones_are_defined(encoder):
    long = " ".join(["town"] * 100)
    np.testing.assert_allclose(encoder.encode([long]), encoder.encode([" ".join(["town"] * 14)]), atol=1e-6)
    assert np.isfinite(encoder.encode(["", " "])).all()
    assert encoder.encode([]).shape == (0, 16)


def test_unit_vectors_similarity_and_bf16(encoder):
    unit = encoder.encode(SENTENCES, normalize_embeddings=True)
    assert "pooling='mean'" in repr(encoder)
    np.testing.assert_allclose(np.linalg.norm(unit, axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(encoder.similarity(SENTENCES, SENTENCES), unit @ unit.T, atol=1e-6)
    half = encoder.encode(SENTENCES, normalize_embeddings=True, dtype=torch.bfloat16)
    assert (half * unit).sum(1).min() > 0.999
    states = encoder.encode(SENTENCES, output_value="token_embeddings", dtype=torch.bfloat16)
    np.testing.assert_allclose(unit_vectors([one.mean(0).numpy() for one in states]), half, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("whole", [False, True])
def test_a_compiled_model_gives_the_same_vectors(encoder, whole, tmp_path):
    expected, fingerprint = encoder.encode(SENTENCES), encoder.fingerprint
    if whole:
        encoder.model = torch.compile(encoder.model, backend="eager")
    else:
        encoder.model.compile(backend="eager")
    np.testing.assert_allclose(encoder.encode(SENTENCES), expected, atol=1e-6)
    np.testing.assert_allclose(encoder.encode(SENTENCES[0]), expected[0], atol=1e-6)
    assert encoder.fingerprint == fingerprint
    encoder.save_pretrained(tmp_path / "saved")
    assert SentenceEncoder(tmp_path / "saved").fingerprint == fingerprint


def test_buckets_are_a_permutation_within_their_limits():
    lengths = np.random.default_rng(0).integers(1, 128, 500)
    buckets = bucket_rows(lengths, max_padding=0.1, min_tokens=200, max_tokens=2000)
    assert sorted(np.concatenate(buckets).tolist()) == list(range(500))
    widths = padded_widths(lengths)
    for rows in buckets:
        padded = widths[rows].max() * len(rows)
        assert padded <= 2000
        assert widths[rows].sum() >= 0.9 * padded or padded <= 200
    assert [len(rows) for rows in bucket_rows(np.array([50, 40]), max_tokens=10)] == [1, 1]
    assert bucket_rows(np.array([], dtype=int)) == []


def test_widths_are_few_and_near():
    lengths = np.arange(1, 513)
    widths = padded_widths(lengths)
    assert (widths >= lengths).all()
    assert (widths[8:] < 1.25 * lengths[8:]).all()
    assert (np.diff(widths) >= 0).all()
    assert len(np.unique(widths)) == 8 + 4 * 6
    assert padded_widths(np.array([97, 512]), 100).tolist() == [100, 512]


def test_a_folder_without_a_tokenizer_says_so(encoder, tmp_path):
    encoder.model.save_pretrained(tmp_path)
    with pytest.raises(InputError, match="tokenizer"):
        SentenceEncoder.from_pretrained(tmp_path)


def test_a_graph_of_another_library_without_weights_is_not_to_be_exported(encoder, tmp_path):
    encoder.save_pretrained(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    (tmp_path / "onnx").mkdir()
    (tmp_path / "onnx/model.onnx").touch()
    with pytest.raises(InputError, match="checkpoint"):
        SentenceEncoder(tmp_path, backend="onnx")


@pytest.mark.parametrize("make", [
    lambda texts: (text for text in texts), np.array, tuple, iter, pandas.Series, pandas.Index,
    lambda texts: datasets.Dataset.from_dict({"text": texts})["text"], pyarrow.array,
    lambda texts: pyarrow.chunked_array([texts[:1], texts[1:]]), lambda texts: pandas.Series(texts, dtype="string"),
    lambda texts: pandas.DataFrame({"text": texts}),
    lambda texts: datasets.Dataset.from_dict({"text": texts}), lambda texts: pyarrow.table({"text": texts}),
    lambda texts: np.array([texts]).T,
])  # fmt: skip
def test_texts_may_be_any_column(encoder, make):
    for one in (encoder, SentenceEncoder(), open_encoder()):
        np.testing.assert_array_equal(one.encode(make(SENTENCES)), one.encode(SENTENCES))
        np.testing.assert_array_equal(one.similarity(make(SENTENCES), "a dog"), one.similarity(SENTENCES, "a dog"))


def test_an_array_without_dimensions_is_one_text(encoder):
    np.testing.assert_array_equal(encoder.encode(np.array("a dog")), encoder.encode(["a dog"]))


@pytest.mark.parametrize("given", [
    {"text": SENTENCES}, set(SENTENCES), b"text", [b"text"], 5, None, [None], pandas.Series([*SENTENCES, None]),
    pandas.Series(["a", pandas.NA]),
], ids=lambda given: type(given).__name__)  # fmt: skip
def test_what_are_not_texts_is_one_line(encoder, given):
    for one in (encoder, SentenceEncoder(), open_encoder()):
        with pytest.raises(InputError, match="type"):
            one.encode(given)
    for columns in (
        np.array([SENTENCES] * 2).T,
        pandas.DataFrame({"a": SENTENCES, "b": SENTENCES}),
        datasets.Dataset.from_dict({"a": SENTENCES, "b": SENTENCES}),
    ):
        with pytest.raises(InputError, match="strings"):
            encoder.encode(columns)
    with pytest.raises(InputError, match="NoneType"):
        encoder.similarity(["a", None], ["a"])


def test_attributes_of_sentence_transformers_are_those_of_the_vectors(encoder, tokenizer):
    one = SentenceEncoder(encoder.model, tokenizer, max_length=4)
    long = "the cat sat on the mat and a dog ran"
    whole = encoder.encode(long)
    encoder.max_seq_length = 4
    np.testing.assert_array_equal(encoder.encode(long), one.encode(long))
    assert (encoder.max_length, encoder.max_seq_length) == (4, 4)
    cut = encoder.fingerprint
    encoder.max_length = None
    assert encoder.fingerprint != cut
    np.testing.assert_array_equal(encoder.encode(long), whole)
    with pytest.raises(InputError, match="pooling"):
        SentenceEncoder(encoder, pooling="max")
    encoder.truncate_dim = 8
    np.testing.assert_array_equal(encoder.encode(long), whole[:8])
    np.testing.assert_array_equal(encoder.encode(long, truncate_dim=12), whole[:12])
    np.testing.assert_array_equal(encoder.encode_rows(encoder.token_rows([long]))[0], whole[:8])
    assert encoder.encode([]).shape == (0, 8)
    encoder.truncate_dim = None
    encoder.prompts = {"query": "rain fell on "}
    encoder.default_prompt_name = "query"
    prompted = encoder.encode("the old town")
    np.testing.assert_allclose(prompted, encoder.encode("rain fell on the old town", prompt=""), atol=1e-6)
    encoder.similarity_fn_name = "dot"
    a, b = encoder.encode(SENTENCES[:3]), encoder.encode(SENTENCES[3:6])
    np.testing.assert_allclose(encoder.similarity(a, b), a @ b.T, rtol=1e-5)
    for kind in SIMILARITIES:
        encoder.similarity_fn_name = kind
        np.testing.assert_allclose(encoder.similarity_pairwise(a, b), np.diag(encoder.similarity(a, b)), atol=1e-4)


@pytest.mark.parametrize(("name", "value"), [
    ("max_seq_len", 8), ("max_seq_length", 0), ("max_length", -1),
    ("max_length", "8"), ("truncate_dim", 2.5), ("truncate_dim", 0), ("truncate_dim", -1),
    ("default_prompt_name", "query"), ("similarity_fn_name", "cos"), ("device", "cpu"), ("prompt", "a"),
    ("dimension", 3), ("pooling", "mean"), ("prompts", {"query": 5}), ("batch_size", 3), ("similarity", None),
])  # fmt: skip
def test_no_attribute_is_taken_and_ignored(encoder, name, value):
    for one in (encoder, SentenceEncoder()):
        before = one.encode(SENTENCES)
        with pytest.raises((AttributeError, InputError)):
            setattr(one, name, value)
        with pytest.raises(TypeError):
            one.prompts["query"] = "a"
        np.testing.assert_array_equal(one.encode(SENTENCES), before)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_what_decides_the_vectors_decides_the_fingerprint(encoder, tokenizer, precision):
    for make in (lambda: SentenceEncoder(encoder.model, tokenizer, precision=precision), SentenceEncoder):
        marks = [make().fingerprint]
        for name, value in (
            ("max_length", 4),
            ("truncate_dim", 8),
            ("prompts", {"a": "b"}),
            ("default_prompt_name", "a"),
        ):
            one = make()
            one.prompts = {"a": "b"} if name == "default_prompt_name" else {}
            setattr(one, name, value)
            marks.append(one.fingerprint)
        assert len(set(marks)) == len(marks)
        one.similarity_fn_name = "dot"
        assert one.fingerprint == marks[-1]


def test_arguments_of_encode_are_those_of_sentence_transformers(tmp_path, encoder):
    encoder.save_pretrained(tmp_path / "model")
    there = SentenceTransformer(str(tmp_path / "model"), device="cpu")
    texts = SENTENCES * 20
    for options in (
        {"precision": "int8"}, {"precision": "uint8"}, {"precision": "binary"}, {"precision": "ubinary"},
        {"precision": "ubinary", "convert_to_tensor": True}, {"convert_to_numpy": False}, {"device": "cpu"},
        {"truncate_dim": 8, "normalize_embeddings": True}, {"output_value": "token_embeddings"},
    ):  # fmt: skip
        for given in (texts,) if options.get("precision") in ("int8", "uint8") else (texts, texts[0]):
            ours, theirs = encoder.encode(given, **options), there.encode(given, **options)
            assert type(ours) is type(theirs), options
            for a, b in zip(ours, theirs, strict=True):
                assert (type(a), a.shape, a.dtype) == (type(b), b.shape, b.dtype), options
                near = np.abs(np.asarray(a, np.float64) - np.asarray(b, np.float64))
                assert near.max() < 1e-5 or (options.get("precision") in ("int8", "uint8") and near.max() <= 1), options
    for options in (
        {"truncate_dim": -1}, {"truncate_dim": 0}, {"batch_size": 0}, {"batch_size": -1}, {"batch_tokens": 0},
        {"output_value": None}, {"precision": "int4"}, {"output_value": "token_embeddings", "truncate_dim": 2},
        {"device": ["cpu", "cpu"]},
    ):  # fmt: skip
        with pytest.raises((InputError, TypeError)):
            encoder.encode(texts, **options)


@pytest.mark.parametrize("name", ["promts", "trust_remote_code", "cache_folder", "patterns"])
def test_no_argument_is_taken_and_ignored(name):
    with pytest.raises(TypeError, match=name):
        SentenceEncoder(**{name: "a"})
    with pytest.raises(TypeError, match=name):
        SentenceEncoder.from_pretrained("static-minilm", **{name: "a"})


def test_an_encoder_is_copied_with_its_settings(encoder):
    encoder.max_seq_length, encoder.truncate_dim = 4, 8
    for same in (SentenceEncoder(encoder), copy.copy(encoder), pickle.loads(pickle.dumps(encoder))):
        np.testing.assert_array_equal(same.encode(SENTENCES), encoder.encode(SENTENCES))


def test_settings_of_the_constructor_are_those_of_sentence_transformers(tmp_path, encoder):
    """Prompts are added to those of the folder; all of them are saved."""
    encoder.prompts = {"query": "find: ", "document": "text: "}
    encoder.save_pretrained(tmp_path / "model")
    options = {"prompts": {"query": "q: "}, "default_prompt_name": "query", "similarity_fn_name": "dot"}
    there = SentenceTransformer(str(tmp_path / "model"), device="cpu", **options)
    here = SentenceEncoder(tmp_path / "model", **options)
    assert dict(here.prompts) == there.prompts == {"query": "q: ", "document": "text: "}
    assert here.similarity_fn_name == there.similarity_fn_name
    np.testing.assert_allclose(here.encode(SENTENCES), there.encode(SENTENCES), atol=1e-5)
    set_later = SentenceEncoder(tmp_path / "model")
    set_later.prompts, set_later.default_prompt_name = here.prompts, "query"
    assert set_later.fingerprint == here.fingerprint != SentenceEncoder(tmp_path / "model").fingerprint
    here.save_pretrained(tmp_path / "again")
    again = SentenceEncoder(tmp_path / "again")
    assert (dict(again.prompts), again.default_prompt_name, again.similarity_fn_name) == (here.prompts, "query", "dot")
