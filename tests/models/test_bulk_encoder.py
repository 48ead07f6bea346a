"""Bulk encoding gives the vectors of the plain encoder, whatever the order, the batch and the precision."""

import numpy as np
import pytest
import torch

from conftest import SENTENCES
from contrastive_st import BertForCL, InputError, SentenceEncoder
from contrastive_st.models.encoder import BulkEncoder
from contrastive_st.search.documents import cut, texts_corpus
from contrastive_st.search.exact import ExactIndex
from contrastive_st.search.ingest import index_corpus
from contrastive_st.search.shards import Encoding, ShardFolder


@pytest.fixture
def plain(bert_config, tokenizer):
    return SentenceEncoder(BertForCL(bert_config, pooling="mean").eval(), tokenizer)


def test_vectors_are_the_plain_encoders(plain):
    wanted = plain.encode(SENTENCES, normalize=True)
    fast = BulkEncoder(plain, precision="fp32")
    np.testing.assert_allclose(fast.encode(SENTENCES), wanted, atol=1e-6)
    np.testing.assert_allclose(fast.encode(SENTENCES[::-1])[::-1], wanted, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(fast.encode(SENTENCES), axis=1), 1, atol=1e-6)
    assert (fast.dimension, fast.encode([]).shape) == (16, (0, 16))
    half = BulkEncoder(plain, precision="bf16")
    assert (half.encode(SENTENCES) * wanted).sum(1).min() > 0.999
    assert half.fingerprint == fast.fingerprint
    assert next(plain.model.parameters()).dtype == torch.float32  # the caller's model is left as it was


def test_items_are_prepared_one_ahead_and_faults_come_through(plain):
    encoder = BulkEncoder(plain, precision="fp32")
    seen = []

    def items():
        for i in range(4):
            seen.append(i)
            yield SENTENCES[i : i + 1 + i % 2]
        raise InputError("the source ends here")

    results = encoder.encode_each(items(), lambda texts: texts)
    first, vectors = next(results)
    np.testing.assert_allclose(vectors, encoder.encode(first), atol=1e-6)
    assert len(seen) <= 3
    with pytest.raises(InputError, match="ends here"):
        list(results)


def test_odd_texts(plain):
    encoder = BulkEncoder(plain, precision="fp32")
    vectors = encoder.encode(["", "   ", "\0", "'; DROP TABLE x; --", "😀", "\ud83d half", "word " * 200_000])
    assert np.isfinite(vectors).all()


def test_a_model_that_diverged_or_is_unknown_is_refused(plain, tokenizer):
    with pytest.raises(InputError, match="bare function"):
        BulkEncoder(lambda texts: np.ones((len(texts), 2)))
    with pytest.raises(InputError, match="fp64"):
        BulkEncoder(plain, precision="fp64")
    with torch.no_grad():
        plain.model.bert.embeddings.word_embeddings.weight.fill_(float("nan"))
    with pytest.raises(InputError, match="NaN"):
        BulkEncoder(plain)


def test_a_corpus_is_encoded_in_shards_and_taken_up_again(plain, tmp_path):
    encoder = BulkEncoder(plain, precision="fp32")
    texts = [f"{SENTENCES[i % 8]} {i}. {SENTENCES[(i + 3) % 8]}." for i in range(23)]
    corpus = texts_corpus("c", texts, [{"i": i} for i in range(23)])
    made = Encoding("m", encoder.fingerprint, 16, corpus.name, corpus.mark, 5)
    outcomes = []
    for rank in (0, 1, 0):  # two processes of two, then the first again
        folder = ShardFolder(tmp_path / "a", made, rank, 2)
        outcomes.append(index_corpus(corpus, encoder, folder, shard_rows=5))
    assert [(outcome.encoded, outcome.complete) for outcome in outcomes] == [(13, False), (10, True), (0, True)]
    index = ExactIndex.open(tmp_path / "a")
    assert [hit.text for hit in index.get(range(23))] == texts
    np.testing.assert_allclose(np.concatenate([batch[3] for batch in index.scan()]), encoder.encode(texts), atol=1e-6)


def test_pooled_documents_have_the_mean_of_their_parts(plain, tmp_path):
    encoder = BulkEncoder(plain, precision="fp32")
    texts = ["The cat sat. A dog ran. Rain fell.", "She reads."]
    corpus = cut(texts_corpus("c", texts), "sentences", pool=True)
    folder = ShardFolder(tmp_path, Encoding("m", "f", 16, corpus.name, corpus.mark, 5))
    index_corpus(corpus, encoder, folder, shard_rows=5)
    parts = encoder.encode(["The cat sat.", "A dog ran.", "Rain fell."])
    mean = parts.sum(0) / np.linalg.norm(parts.sum(0))
    vectors = next(ExactIndex.open(tmp_path).scan())[3]
    np.testing.assert_allclose(vectors, np.stack([mean, encoder.encode(["She reads."])[0]]), atol=1e-6)
