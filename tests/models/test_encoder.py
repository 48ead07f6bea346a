"""Texts in, vectors out."""

import numpy as np
import pytest
import torch

from conftest import SENTENCES
from contrastive_st import BertForCL, InputError, SentenceEncoder
from contrastive_st.models.running import Running
from contrastive_st.tokens import bucket_rows, padded_widths


@pytest.fixture
def encoder(bert_config, tokenizer):
    return SentenceEncoder(BertForCL(bert_config, pooling="mean"), tokenizer)


def test_order_batching_and_mode_do_not_matter(encoder):
    encoder.model.train()
    whole = encoder.encode(SENTENCES)
    assert encoder.model.training
    np.testing.assert_allclose(encoder.encode(SENTENCES, batch_tokens=1), whole, atol=1e-6)
    np.testing.assert_allclose(encoder.encode(SENTENCES[::-1])[::-1], whole, atol=1e-6)
    np.testing.assert_allclose(np.stack([encoder.encode([text])[0] for text in SENTENCES]), whole, atol=1e-6)


def test_long_texts_are_cut_as_in_training_and_empty_ones_are_defined(encoder):
    long = " ".join(["town"] * 100)
    np.testing.assert_allclose(encoder.encode([long]), encoder.encode([" ".join(["town"] * 14)]), atol=1e-6)
    assert np.isfinite(encoder.encode(["", " "])).all()
    assert encoder.encode([]).shape == (0, 16)


def test_unit_vectors_similarity_and_bf16(encoder):
    unit = encoder.encode(SENTENCES, normalize_embeddings=True)
    np.testing.assert_allclose(np.linalg.norm(unit, axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(encoder.similarity(SENTENCES, SENTENCES), unit @ unit.T, atol=1e-6)
    half = encoder.encode(SENTENCES, normalize_embeddings=True, dtype=torch.bfloat16)
    assert (half * unit).sum(1).min() > 0.999


def test_random_numbers_are_left_alone(encoder):
    state = torch.get_rng_state()
    encoder.encode(SENTENCES)
    assert torch.equal(torch.get_rng_state(), state)


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


def test_passes_of_other_texts_share_their_shapes(encoder, monkeypatch):
    """oneDNN compiles a product for each shape: another pass brings hardly any that the first did not have."""
    seen = []
    forward = Running.forward

    def watched(running, rows, before, width):
        seen.append((len(rows), width))
        return forward(running, rows, before, width)

    monkeypatch.setattr(Running, "forward", watched)
    rng = np.random.default_rng(0)
    for _ in range(20):
        encoder.encode_rows([[5] * n for n in np.clip(rng.lognormal(2, 0.7, 2000).astype(int), 1, encoder.max_length)])
    assert len(seen) >= 20 * 5
    assert len(set(seen)) < len(seen) / 4


def test_a_folder_without_a_tokenizer_says_so(encoder, tmp_path):
    encoder.model.save_pretrained(tmp_path)
    with pytest.raises(InputError, match="tokenizer"):
        SentenceEncoder.from_pretrained(tmp_path)


@pytest.mark.parametrize("device", ["nonsense", "cuda:99"])
def test_a_device_that_is_not_there_is_named_in_a_line(encoder, tmp_path, device):
    encoder.save_pretrained(tmp_path)
    with pytest.raises(InputError, match=f"device {device}: .*; leave it out"):
        SentenceEncoder(tmp_path, device=device)


def test_no_texts_at_all(encoder):
    with pytest.raises(InputError, match="the texts are of the type NoneType; give a string or a list"):
        encoder.encode(None)
