"""Search, paraphrase mining and communities in memory: against plain loops, and against sentence-transformers."""

import numpy as np
import pytest
import torch

from contrastive_st import BertForCL, SentenceEncoder, community_detection, paraphrase_mining, prefetch, semantic_search
from contrastive_st.cli import main
from contrastive_st.errors import InputError
from contrastive_st.search.in_memory import paraphrase_mining_embeddings


def drawn(count=300, dim=16, seed=0):
    """Vectors of which many are near to another, and some are equal."""
    random = np.random.default_rng(seed)
    vectors = random.standard_normal((count, dim)).astype(np.float32)
    for i in range(count // 3, count):
        vectors[i] = vectors[random.integers(0, i)] + random.choice([0.0, 0.2, 0.5]) * random.standard_normal(dim)
    return vectors


def distinct(count):
    """As `drawn`, without equal vectors, so that no two scores are equal."""
    return drawn(count) + 1e-2 * np.random.default_rng(5).standard_normal((count, 16)).astype(np.float32)


def cosines(a, b):
    a, b = (x.astype(np.float64) / np.linalg.norm(x, axis=1, keepdims=True) for x in (a, b))
    return a @ b.T


@pytest.mark.parametrize("chunks", [{}, {"query_chunk_size": 7, "corpus_chunk_size": 31}])
@pytest.mark.parametrize("top_k", [1, 5, 1000])
def test_search_is_a_plain_sort(chunks, top_k):
    queries, corpus = drawn(20, seed=1), drawn()
    wanted = cosines(queries, corpus)
    found = semantic_search(queries, corpus, top_k=top_k, **chunks)
    assert len(found) == 20
    for hits, scores in zip(found, wanted, strict=True):
        assert [hit["score"] for hit in hits] == pytest.approx(np.sort(scores)[::-1][:top_k], abs=1e-6)
        for hit in hits:
            assert hit["score"] == pytest.approx(scores[hit["corpus_id"]], abs=1e-6)
        assert len({hit["corpus_id"] for hit in hits}) == min(top_k, 300)


@pytest.mark.parametrize("top_k", [2, 1000])
@pytest.mark.parametrize("max_pairs", [1, 50, 100_000])
def test_paraphrases_are_the_best_of_each_others_nearest(top_k, max_pairs):
    vectors = distinct(120)
    scores = cosines(vectors, vectors)
    np.fill_diagonal(scores, -np.inf)
    pairs = set()
    for i in range(120):
        pairs |= {(min(i, j), max(i, j)) for j in np.argsort(-scores[i])[: min(top_k, 119)].tolist()}
    wanted = sorted(pairs, key=lambda pair: -scores[pair])[:max_pairs]
    found = paraphrase_mining_embeddings(vectors, top_k=top_k, max_pairs=max_pairs, query_chunk_size=13)
    assert {(i, j) for _, i, j in found} == set(wanted)
    assert [score for score, _, _ in found] == pytest.approx([scores[pair] for pair in wanted], abs=1e-6)


def test_many_equal_sentences():
    found = paraphrase_mining_embeddings(np.ones((50, 4), dtype=np.float32), top_k=3)
    assert all(i < j for _, i, j in found)
    assert len({(i, j) for _, i, j in found}) == len(found) >= 50 * 3 / 2


@pytest.mark.parametrize(("threshold", "least"), [(0.6, 5), (0.9, 2)])
@pytest.mark.parametrize("batch_size", [3, 1024])
@pytest.mark.parametrize("repeated", [False, True])
def test_communities_are_those_of_a_plain_loop(threshold, least, batch_size, repeated):
    vectors = drawn()
    if repeated:  # equal vectors are compared once, and count as many as they are
        vectors = vectors[np.random.default_rng(0).integers(0, len(vectors), 2 * len(vectors))]
    near = cosines(vectors, vectors) >= threshold
    used, wanted = set(), []
    for center in np.argsort(-near.sum(1), kind="stable").tolist():
        members = [int(i) for i in np.flatnonzero(near[center]) if i not in used]
        if near[center].sum() >= least and center not in used and len(members) >= least:
            wanted.append((center, set(members)))
            used |= set(members)
    found = community_detection(vectors, threshold, least, batch_size)
    assert {(group[0], frozenset(group)) for group in found} == {(center, frozenset(own)) for center, own in wanted}
    assert [len(group) for group in found] == sorted((len(own) for _, own in wanted), reverse=True)
    assert len(found) > 3
    for group in found:
        scores = cosines(vectors[group[:1]], vectors[group[1:]])[0]
        assert (np.diff(scores) <= 1e-6).all()


def test_the_same_as_sentence_transformers():
    util = pytest.importorskip("sentence_transformers.util")
    vectors = torch.from_numpy(distinct(800))
    theirs = util.paraphrase_mining_embeddings(vectors, top_k=20, max_pairs=3000)
    ours = paraphrase_mining_embeddings(vectors, top_k=20, max_pairs=3000)
    assert {tuple(pair[1:]) for pair in ours} == {tuple(pair[1:]) for pair in theirs}
    np.testing.assert_allclose([pair[0] for pair in ours], [pair[0] for pair in theirs], atol=1e-5)
    assert util.community_detection(vectors, 0.8, 4) == community_detection(vectors, 0.8, 4)
    found, wanted = semantic_search(vectors[:50], vectors), util.semantic_search(vectors[:50], vectors)
    for hits, others in zip(found, wanted, strict=True):
        assert [hit["corpus_id"] for hit in hits] == [hit["corpus_id"] for hit in others]
        np.testing.assert_allclose([hit["score"] for hit in hits], [hit["score"] for hit in others], atol=1e-5)
    dots = semantic_search(vectors[:5], vectors, score_function=util.dot_score)
    others = util.semantic_search(vectors[:5], vectors, score_function=util.dot_score)
    assert [[hit["corpus_id"] for hit in hits] for hits in dots] == [[h["corpus_id"] for h in hits] for hits in others]


@pytest.mark.parametrize("threads", [1, 3])
def test_threads_change_nothing(threads, monkeypatch):
    vectors = drawn()
    wanted = paraphrase_mining_embeddings(vectors, query_chunk_size=11)
    monkeypatch.setattr(prefetch, "product_threads", lambda: threads)
    assert paraphrase_mining_embeddings(vectors, query_chunk_size=11) == wanted


def test_arrays_tensors_and_lists():
    vectors = drawn(20)
    wanted = semantic_search(vectors[0], vectors)
    for given in (torch.from_numpy(vectors), list(torch.from_numpy(vectors)), vectors.tolist()):
        assert [hit["corpus_id"] for hit in semantic_search(given[0], given)[0]] == [h["corpus_id"] for h in wanted[0]]
    half = community_detection(torch.from_numpy(vectors).bfloat16(), 0.5, 2)
    assert half


def test_sentences_and_a_model():
    asked = []

    def encode(texts):
        asked.append(texts)
        return np.array([[len(text), 1.0] for text in texts])

    found = paraphrase_mining(encode, ["one", "three", "two"], max_pairs=1)
    assert asked == [["one", "three", "two"]]
    assert found[0][1:] == [0, 2]
    shipped = paraphrase_mining(None, ["a cat sleeps", "the weather is fine", "a cat is sleeping"], max_pairs=1)
    assert shipped[0][1:] == [0, 2]


def test_nothing_to_compare():
    assert paraphrase_mining_embeddings(np.ones((1, 3))) == paraphrase_mining(lambda texts: np.array(texts), []) == []
    for nothing in ([], np.zeros((0, 5))):
        assert semantic_search(nothing, np.ones((2, 3))) == semantic_search(nothing, nothing) == []
        assert semantic_search(np.ones((2, 3)), nothing) == [[], []]
    assert community_detection(np.zeros((0, 3))) == []
    assert community_detection(np.zeros((30, 3))) == []  # zero vectors have no direction


@pytest.mark.parametrize(
    "call",
    [
        lambda: semantic_search(np.ones((2, 3)), np.ones((2, 4))),
        lambda: SentenceEncoder().similarity(np.ones((2, 3)), np.ones((2, 4))),
        lambda: semantic_search(np.ones((2, 3)), np.ones((2, 3)), top_k=0),
        lambda: semantic_search(np.ones((2, 3)), np.ones((2, 3)), corpus_chunk_size=0),
        lambda: semantic_search(["a text"], ["another"]),
        lambda: paraphrase_mining_embeddings(np.ones((3, 3)), max_pairs=0),
        lambda: paraphrase_mining_embeddings([[1.0, 0.0], [np.nan, 1.0]]),
        lambda: semantic_search(np.ones((2, 3)), np.full((2, 3), np.inf)),
        lambda: community_detection(np.ones((3, 3)), min_community_size=0),
    ],
)
def test_arguments_that_are_not_valid(call):
    with pytest.raises(InputError) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_texts_without_a_known_token_are_alike_by_nothing(tmp_path, capsys, bert_config, tokenizer):
    """A torch model gives them all one vector; the static one zeros."""
    silent = ["\U0001f600", "\U0001f680"]
    assert paraphrase_mining(SentenceEncoder(BertForCL(bert_config, pooling="mean"), tokenizer), silent)[0][0] == 0
    path = tmp_path / "texts.txt"
    path.write_text("\n".join([*silent, "a cat sat", "a cat sat"]), encoding="utf-8")
    assert main(["group", str(path), "--min_community_size", "2"]) == 0
    assert "1 groups of 2 of 4 texts\nleft out: 2 texts without a token that the model knows" in capsys.readouterr().err
    for option, value in (("--threshold", "2"), ("--min_community_size", "0")):
        assert main(["group", str(path), option, value]) == 2
