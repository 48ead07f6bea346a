"""Exact search against a plain loop, in memory and over a folder of shards."""

import itertools
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from store_places import unit_vectors

from contrastive_st.errors import InputError
from contrastive_st.search import exact
from contrastive_st.search.exact import Codes, ExactIndex
from contrastive_st.search.index import Members
from contrastive_st.search.ingest import load_shards
from contrastive_st.search.shards import Encoding, ShardFolder
from contrastive_st.vectors import dequantize, quantization_ranges, quantize

TEXTS = [f"text number {i}" for i in range(50)]
METADATA = [{"parity": i % 2, "n": i} for i in range(50)]


def plain(vectors, query, rows, k):
    query = [float(x) / sum(float(y) ** 2 for y in query) ** 0.5 for x in query]
    scores = {i: sum(float(a) * b for a, b in zip(vectors[i], query, strict=True)) for i in rows}
    return sorted(rows, key=lambda i: -scores[i])[:k], scores


def filled(path, vectors, precision="float32"):
    folder = ShardFolder(path, Encoding("m", "f", vectors.shape[1], "corpus", "mark", 20, precision))
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


@pytest.mark.parametrize("precision", ["float32", "int8", "ubinary"])
def test_no_queries_have_no_hits_and_their_filter_is_checked(shards, precision):
    index = ExactIndex.open(shards[0].folder, precision=precision)
    assert index.search(np.empty((0, 8)), filter={"parity": 1}) == index.search(np.empty((0, 8))) == []
    with pytest.raises(InputError, match="no document has a value in the column 'odd'"):
        index.search(np.empty((0, 8)), filter={"odd": 1})


def test_similar_and_scan(shards):
    folder, vectors = shards
    index = ExactIndex.open(folder.folder)
    wanted, _ = plain(vectors, vectors[7], range(50), 4)
    assert [hit.id for hit in index.similar(7, 100_000)][:3] == wanted[1:]
    ids, texts, metadata, back = (list(part) for part in zip(*index.scan(13), strict=True))
    assert np.concatenate(ids).tolist() == list(range(50))
    assert list(itertools.chain(*texts)) == TEXTS
    assert list(itertools.chain(*metadata)) == METADATA
    np.testing.assert_array_equal(np.concatenate(back), vectors)
    assert index.search(vectors[0], 5, text="\0 ' 😀")[0][0].id == 0


def test_a_changed_folder_is_laid_out_anew(shards):
    folder, _ = shards
    assert len(ExactIndex.open(folder.folder)) == 50
    folder.add(3, (np.array([50]), ["more"], [{}], unit_vectors(1, seed=5)))
    index = ExactIndex.open(folder.folder)
    assert len(index) == 51
    assert index.search(unit_vectors(1, seed=5))[0][0].text == "more"


def nearest_codes(vectors, query, precision, ranges, rotation):
    """Rows by the first pass, best first: a plain loop over the values that `quantize` gives."""
    if precision == "ubinary":
        np.testing.assert_allclose(rotation @ rotation.T, 2 * np.eye(len(rotation)), atol=1e-5)
        bits, own = (np.unpackbits(quantize(x @ rotation, "ubinary"), axis=-1) for x in (vectors, query))
        scores = [-sum(int(a) != int(b) for a, b in zip(row, own, strict=True)) for row in bits]
    else:
        back = dequantize(quantize(vectors, "int8", ranges), "int8", vectors.shape[1], ranges)
        scores = [sum(float(a) * float(b) for a, b in zip(row, query, strict=True)) for row in back]
    return sorted(range(len(vectors)), key=lambda i: -scores[i])


@pytest.mark.parametrize("block", [7, 1000])
@pytest.mark.parametrize("precision", ["int8", "ubinary"])
def test_the_nearest_codes_are_compared_again_by_their_vectors(tmp_path, monkeypatch, precision, block):
    monkeypatch.setattr(exact, "_BLOCK", block)
    monkeypatch.setattr(exact, "_CACHED", 100)
    vectors = np.concatenate([unit_vectors(50), unit_vectors(50, seed=3)[:, :3]], axis=1)  # 11: no whole byte
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    index = ExactIndex.open(filled(tmp_path / "shards", vectors).folder, precision=precision)
    ranges = quantization_ranges(vectors)
    again = ExactIndex.open(tmp_path / "shards", precision=precision)  # codes that are there
    own = ExactIndex(np.arange(50), TEXTS, vectors, METADATA, codes=Codes.of(vectors, precision))
    queries = vectors[:4] + 0.3 * unit_vectors(4, seed=1)[:, :1]
    changed = 0
    for i, query in enumerate(queries / np.linalg.norm(queries, axis=1, keepdims=True)):
        first = nearest_codes(vectors, query, precision, ranges, index._codes.rotation)[:6]
        wanted, scores = plain(vectors, query, first, 3)
        changed += wanted != plain(vectors, query, range(50), 3)[0]
        for found in (index, again, own):
            hits = found.search(queries, 3, oversample=2)[i]
            assert [hit.id for hit in hits] == wanted
            np.testing.assert_allclose([hit.score for hit in hits], [scores[j] for j in wanted], atol=1e-6)
        for options in ({"exact": True}, {"oversample": 50}):
            assert [hit.id for hit in index.search(query, 3, **options)[0]] == plain(vectors, query, range(50), 3)[0]
        odd = [hit.id for hit in index.search(query, 3, filter={"parity": 1}, oversample=50)[0]]
        assert odd == plain(vectors, query, range(1, 50, 2), 3)[0]
    assert changed or precision == "int8"  # few candidates of two bits a number miss some
    alone = Codes.of(vectors, precision)  # nothing else kept: near to the vectors
    assert (alone[np.arange(50)] * vectors).sum(1).min() > (0.6 if precision == "ubinary" else 0.999)
    np.testing.assert_array_equal(next(index.scan())[3], vectors)


def test_a_folder_that_may_not_be_written_is_answered_in_a_line(tmp_path, monkeypatch):
    folder = filled(tmp_path / "shards", unit_vectors(50)).folder

    def refuse(self, *args, **options):
        raise PermissionError(13, "Permission denied", str(self))

    with monkeypatch.context() as of_root:  # who may write everywhere
        of_root.setattr(Path, "mkdir", refuse)
        with pytest.raises(InputError, match=r"exact cannot be written: .*; search once from an account that may"):
            ExactIndex.open(folder)
    assert len(ExactIndex.open(folder)) == 50


@pytest.mark.parametrize(("precision", "least"), [("int8", 0.9995), ("ubinary", 0.6)])
def test_shards_of_codes_alone(tmp_path, precision, least):
    vectors = unit_vectors(50)
    folder = filled(tmp_path / "shards", vectors, precision)
    ranges = None if precision == "ubinary" else quantization_ranges(vectors[:20])  # those of the first shard
    assert (folder.ranges is None) == (ranges is None)
    index = ExactIndex.open(folder.folder)
    _, texts, metadata, back = next(index.scan())
    assert (texts, metadata) == (TEXTS, METADATA)
    wanted = dequantize(quantize(vectors, precision, ranges), precision, 8, ranges)
    wanted /= np.linalg.norm(wanted, axis=1, keepdims=True)
    np.testing.assert_allclose(back, wanted, atol=1e-6)
    np.testing.assert_allclose(np.concatenate([batch[3] for _, batch, _ in folder.batches()]), wanted, atol=1e-6)
    assert np.median((back * vectors).sum(1)) > least
    hits = index.search(vectors[9], 5, oversample=10)[0]
    assert [hit.id for hit in hits] == plain(wanted, vectors[9], range(50), 5)[0]
    with pytest.raises(InputError, match="encode"):
        ExactIndex.open(folder.folder, precision="float32")


def test_of_several_processes_one_gives_the_ranges(tmp_path):
    vectors = unit_vectors(40)
    encoding = Encoding("m", "f", 8, "corpus", "mark", 20, "int8")
    first, second = (ShardFolder(tmp_path / "shards", encoding, rank, 2) for rank in (0, 1))
    second._calibrate(vectors[20:])
    first._calibrate(vectors[:20])  # both found none, and the other was faster
    for folder, shard in ((first, 0), (second, 1)):
        rows = slice(20 * shard, 20 * shard + 20)
        folder.add(shard, (np.arange(40)[rows], TEXTS[rows], METADATA[rows], vectors[rows]))
    np.testing.assert_array_equal(first.ranges, quantization_ranges(vectors[20:]))
    assert {path.name for path in first.folder.iterdir()} == {
        "encoding.json", "ranges.npy", "shard-000000.parquet", "shard-000001.parquet"
    }  # fmt: skip


@pytest.mark.parametrize("precision", ["float32", "int8", "ubinary"])
def test_a_shard_of_which_all_is_left_out(tmp_path, precision):
    folder, none = ShardFolder(tmp_path, Encoding("m", "f", 8, "corpus", "mark", 2, precision)), np.empty(0, np.int64)
    vectors = np.eye(8, dtype=np.float32)[:2]
    folder.add(0, (none, [], [], np.empty((0, 8), np.float32)), Members([], none, np.array([1, 2])))
    folder.add(1, (np.array([3, 4]), ["a", "b"], [{}, {}], vectors))
    assert folder.finish(2)
    (_, first, members), (_, second, _) = folder.batches()
    assert (members.left_out.tolist(), first[3].shape, second[3].shape) == ([1, 2], (0, 8), (2, 8))
    assert [hit.id for hit in ExactIndex.open(tmp_path).search(vectors[1], 1)[0]] == [4]


def test_shards_appear_whole_and_are_shared_out(shards, tmp_path):
    folder, vectors = shards
    assert [folder.claim(i) for i in range(4)] == [False, False, False, True]
    second = ShardFolder(folder.folder, folder.encoding, rank=1, world=2)
    assert [second.claim(i) for i in (3, 4, 5)] == [True, False, True]
    np.testing.assert_array_equal(folder.read(folder.paths()[1])[0][3], vectors[20:40])
    assert folder.finish(3, 50)
    assert ShardFolder(folder.folder).missing() == ""
    assert not folder.finish(4, 70)
    with pytest.raises(InputError, match=r"is incomplete \(shards: 3 of 4\)"):  # at the end, as in the middle
        load_shards(ShardFolder(folder.folder), second)
    record = folder.folder / "encoding.json"
    record.write_text(json.dumps({**json.loads(record.read_text()), "shards": None}))  # as a former version has it
    assert ShardFolder(folder.folder).missing() == ""


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
    with pytest.raises(InputError, match="'int4'"):
        ExactIndex.open(folder.folder, precision="int4")
    with pytest.raises(InputError, match="'float32'"):
        Codes.of(unit_vectors(2), "float32")
