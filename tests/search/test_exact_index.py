"""Exact search against a plain loop, in memory and over a folder of shards."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from store_places import unit_vectors

from contrastive_st.errors import InputError
from contrastive_st.search import exact
from contrastive_st.search.exact import ExactIndex
from contrastive_st.search.shards import Encoding, ShardFolder

TEXTS = [f"text number {i}" for i in range(50)]
METADATA = [{"parity": i % 2, "n": i} for i in range(50)]


def plain(vectors, query, rows, k):
    query = [float(x) / sum(float(y) ** 2 for y in query) ** 0.5 for x in query]
    scores = {i: sum(float(a) * b for a, b in zip(vectors[i], query, strict=True)) for i in rows}
    return sorted(rows, key=lambda i: -scores[i])[:k], scores


def filled(path, vectors):
    folder = ShardFolder(path, Encoding("m", "f", vectors.shape[1], "corpus", "mark", 20))
    for shard in range(3):
        rows = slice(20 * shard, 20 * shard + 20)
        folder.add(shard, (np.arange(50)[rows], TEXTS[rows], METADATA[rows], vectors[rows]))
    return folder


@pytest.fixture
def shards(tmp_path):
    vectors = unit_vectors(50)
    return filled(tmp_path / "shards", vectors), vectors


@pytest.mark.parametrize("block", [7, 1000])
def test_search_is_that_of_a_plain_loop(shards, monkeypatch, block):
    monkeypatch.setattr(exact, "_BLOCK", block)
    folder, vectors = shards
    index = ExactIndex.open(folder.folder, fingerprint="f")
    assert (len(index), index.dimension, index.model) == (50, 8, "m")
    queries = 3 * unit_vectors(4, seed=1)
    for filter, rows in ((None, range(50)), ({"parity": 1, "n": {"<": 30}}, range(1, 30, 2))):
        for query, hits in zip(queries, index.search(queries, 5, filter=filter), strict=True):
            wanted, scores = plain(vectors, query, list(rows), 5)
            assert [hit.id for hit in hits] == wanted
            np.testing.assert_allclose([hit.score for hit in hits], [scores[i] for i in wanted], atol=1e-6)
            assert hits[0].text == TEXTS[wanted[0]]
            assert hits[0].metadata == METADATA[wanted[0]]
    assert len(index.search(queries[0], 100)[0]) == 50


def test_similar_get_scan_and_hybrid(shards):
    folder, vectors = shards
    index = ExactIndex.open(folder.folder)
    wanted, _ = plain(vectors, vectors[7], range(50), 4)
    assert [hit.id for hit in index.similar(7, 3)] == wanted[1:]
    assert [hit.text for hit in index.get([9, 3])] == [TEXTS[9], TEXTS[3]]
    ids, texts, metadata, back = (list(part) for part in zip(*index.scan(13), strict=True))
    assert np.concatenate(ids).tolist() == list(range(50))
    assert list(itertools.chain(*texts)) == TEXTS
    assert list(itertools.chain(*metadata)) == METADATA
    np.testing.assert_array_equal(np.concatenate(back), vectors)
    assert index.search(-vectors[31], 5, text="31")[0][0].id == 31
    assert index.search(vectors[0], 5, text="\0 ' 😀")[0][0].id == 0


def test_a_changed_folder_is_laid_out_anew(shards):
    folder, _ = shards
    assert len(ExactIndex.open(folder.folder)) == 50
    folder.add(3, (np.array([50]), ["more"], [{}], unit_vectors(1, seed=5)))
    index = ExactIndex.open(folder.folder)
    assert len(index) == 51
    assert index.search(unit_vectors(1, seed=5))[0][0].text == "more"


def test_shards_appear_whole_and_are_shared_out(shards, tmp_path):
    folder, vectors = shards
    assert [folder.claim(i) for i in range(4)] == [False, False, False, True]
    second = ShardFolder(folder.folder, folder.encoding, rank=1, world=2)
    assert [second.claim(i) for i in (3, 4, 5)] == [True, False, True]
    np.testing.assert_array_equal(folder.read(folder.paths()[1])[3], vectors[20:40])
    assert folder.finish(3, 50)
    assert not folder.finish(4, 70)


def test_faults_are_named(shards, tmp_path):
    folder, _ = shards
    with pytest.raises(InputError, match="fingerprint"):
        ExactIndex.open(folder.folder, fingerprint="g")
    with pytest.raises(InputError, match="dimension"):
        ShardFolder(folder.folder, Encoding("m", "f", 9, "corpus", "mark", 20))
    with pytest.raises(InputError, match="changed"):
        ShardFolder(folder.folder, replace(folder.encoding, corpus_fingerprint="other"))
    with pytest.raises(InputError, match="no encoded vectors"):
        ExactIndex.open(tmp_path)
    with pytest.raises(InputError, match="no document talk-7"):
        ExactIndex.open(folder.folder).similar("talk-7")
    index = ExactIndex.open(folder.folder)
    for query, what in (([1.0] * 7, "8 dimensions"), ([0.0] * 8, "zero"), ([float("nan")] * 8, "NaN")):
        with pytest.raises(InputError, match=what):
            index.search(np.array(query))
    with pytest.raises(InputError, match="no document 77"):
        index.similar(77)
    with pytest.raises(InputError, match="k 0"):
        index.search(unit_vectors(1), 0)
