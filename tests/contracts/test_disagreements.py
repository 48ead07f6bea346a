"""Rows of docs/disagreements.md that no other test holds: what a library does, and this package with the same input."""

import csv

import numpy as np
import pytest
import torch
from store_places import by_words, store_place
from tokenizers import Tokenizer, models, pre_tokenizers

from contrastive_st import SentenceEncoder
from contrastive_st.data.documentation import DocPair, near_copies
from contrastive_st.data.reading.content import decode
from contrastive_st.losses.functional import normalize
from contrastive_st.search.exact import ExactIndex
from contrastive_st.search.postgres.store import VectorStore
from contrastive_st.vectors import PAIRWISE, SIMILARITIES, dequantize, quantization_ranges, quantize, unit_vectors

library = pytest.importorskip("sentence_transformers")


def nearest(queries, rows, k=10):
    """The numbers of the k rows of largest dot product, `[Q, k]`."""
    return np.argsort(-(queries @ rows.T), axis=1, kind="stable")[:, :k]


def kept(found, wanted):
    """The share of the true nearest that were found."""
    return np.mean([len({*a} & {*b}) / len(b) for a, b in zip(found, wanted, strict=True)])


def test_a_static_folder_says_inf_there_and_cuts(tmp_path):
    model2vec = pytest.importorskip("model2vec")
    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0, "a": 1, "b": 2}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    model2vec.StaticModel(np.eye(3, dtype=np.float32), tokenizer, normalize=False).save_pretrained(tmp_path)
    theirs, ours = library.SentenceTransformer(str(tmp_path), device="cpu"), SentenceEncoder(str(tmp_path))
    assert (theirs.max_seq_length, ours.max_length) == (np.inf, 512)
    text = "a " * 512 + "b " * 512
    np.testing.assert_array_equal(theirs.encode(text), [0, 1, 0])
    np.testing.assert_array_equal(ours.encode(text), [0, 1, 0])


def test_short_french_is_read_as_it_was_written():
    chardet = pytest.importorskip("chardet")
    for text in ("Crème brûlée\nà la crème", "Ça va très bien à côté"):
        assert chardet.detect(text.encode("cp1252"))["encoding"] == "MacCyrillic"
        assert decode(text.encode("cp1252"), "a.txt")[0] == text


def test_a_zero_vector_has_a_cosine_here_and_none_in_scipy():
    from scipy.spatial.distance import cosine
    from sklearn.metrics.pairwise import cosine_similarity

    zero, other = np.zeros((1, 2), np.float32), np.ones((1, 2), np.float32)
    with np.errstate(invalid="ignore"):
        assert np.isnan(cosine(zero[0], other[0]))
    assert cosine_similarity(zero, other) == library.util.cos_sim(zero, other).numpy() == 0
    assert PAIRWISE["cosine"](zero, other) == 0


def test_a_zero_vector_stays_zero_here():
    zero = torch.zeros(1, 4, dtype=torch.float16)
    assert torch.nn.functional.normalize(zero).isnan().all()
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        assert not normalize(zero.to(dtype)).any()


def test_a_vector_is_at_no_distance_from_itself_here():
    rows = np.random.default_rng(0).standard_normal((26, 384), np.float32) + 5
    assert library.util.euclidean_sim(rows[:25], rows[:25]).diag().abs().max() == 0
    assert library.util.euclidean_sim(rows, rows).diag().abs().max() > 0.02
    assert not np.diag(SIMILARITIES["euclidean"](rows, rows)).any()


def test_int8_codes_are_compared_after_decoding():
    """Dimensions have different ranges, as in most models."""
    random = np.random.default_rng(0)
    rows = random.normal(0.1, 1 / np.sqrt(1 + np.arange(64)), (2000, 64))
    rows = unit_vectors(rows.astype(np.float32))
    ranges = quantization_ranges(rows)
    codes = quantize(rows, "int8", ranges)
    np.testing.assert_array_equal(codes, library.quantize_embeddings(rows, "int8", ranges=ranges))
    wanted = nearest(rows[:100], rows)
    as_they_are = unit_vectors(codes.astype(np.float32))
    decoded = dequantize(codes, "int8", rows.shape[1], ranges)
    assert kept(nearest(as_they_are[:100], as_they_are), wanted) < 0.9
    assert kept(nearest(decoded[:100], decoded), wanted) > 0.95


def test_long_words_are_found_here():
    """tantivy drops words of 40 bytes and more (findings/tantivy_long_words.sh)."""
    texts = ["我们去公园散步然后回家吃饭吧", "the Donaudampfschifffahrtsgesellschaftskapitaen met", "y" * 40, "a cat"]
    index = ExactIndex(range(4), texts, unit_vectors(np.eye(4, 8, dtype=np.float32)))
    assert [by_words(index, text)[0] for text in texts] == [0, 1, 2, 3]


def test_in_postgres():
    """Copies of a vector are found there; two empty codes are as far apart as can be; a zero vector has no cosine."""
    random = np.random.default_rng(0)
    rows, queries = (unit_vectors(random.standard_normal((n, 32)).astype(np.float32)) for n in (500, 200))
    best = nearest(queries, rows, 1)[:, 0]
    made = {"model": "m", "fingerprint": "0" * 64, "dimension": 32}
    with store_place() as folder, VectorStore.create(str(folder), "copies", **made) as store:
        store.upsert(range(5000), ["text"] * 5000, np.repeat(rows, 10, 0))
        store.build_index("hnsw")
        for beam, least in ((16, 0.95), (200, 1)):
            hits = store.search(queries, k=1, ef_search=beam, exact=False)
            assert np.mean([hit.id // 10 == number for (hit,), number in zip(hits, best, strict=True)]) >= least
        assert store.database.run(lambda server: server.value("SELECT B'0000' <%> B'0000'")) == 1
        zero = "SELECT '[0,0]'::vector <=> '[1,1]'::vector"
        assert np.isnan(store.database.run(lambda server: server.value(zero)))


@pytest.mark.filterwarnings("ignore:Jaccard is ill-defined")
def test_two_empty_sets_are_equal_or_not():
    from scipy.spatial.distance import jaccard
    from sklearn.metrics import jaccard_score

    empty = np.zeros(4, bool)
    assert jaccard(empty, empty) == 0
    assert jaccard_score(empty, empty) == 0
    assert not near_copies([DocPair("?", "!", "a")], [DocPair("?", "!", "b")]).any()


def test_rank_fusion_of_a_good_and_a_fair_run(data_root):
    """NLI: the query is a hypothesis that follows from its premise."""
    with open(data_root / "nli/pairs.tsv", encoding="utf-8", newline="") as lines:
        rows = list(csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))[1:12_001]
    numbers = {premise: n for n, premise in enumerate(dict.fromkeys(row[0] for row in rows))}
    queries = [(row[1], numbers[row[0]]) for row in rows if row[2] == "entailment"][::10]
    encoder = SentenceEncoder()
    index = ExactIndex(range(len(numbers)), list(numbers), encoder.encode_document(list(numbers)))
    found = {"vectors": [], "words": [], "ranks": [], "both": []}
    for (text, wanted), vector in zip(queries, encoder.encode_query([text for text, _ in queries]), strict=True):
        vectors, words = (
            [hit.id for hit in index.search(vector, k=100)[0]],
            index._by_words(text, 100, None)[0].tolist(),
        )
        scores = {}
        for run in (vectors, words):
            for place, number in enumerate(run, 1):
                scores[number] = scores.get(number, 0) + 1 / (60 + place)
        ranks = sorted(scores, key=lambda number: -scores[number])
        both = [hit.id for hit in index.search(vector, text=text)[0]]
        for name, run in zip(found, (vectors, words, ranks, both), strict=True):
            found[name].append(wanted in run[:10])
    recall = {name: np.mean(hits) for name, hits in found.items()}
    assert recall["words"] < recall["ranks"] < recall["vectors"] - 0.07, recall
    assert recall["both"] > recall["ranks"] + 0.07, recall
