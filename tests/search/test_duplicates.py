"""Near-duplicates against every pair by plain loops."""

import csv
import json
from dataclasses import replace

import numpy as np
import pytest

from contrastive_st import InputError, SentenceEncoder
from contrastive_st.search import in_memory
from contrastive_st.search.analysis import duplicates
from contrastive_st.search.analysis.duplicates import find_duplicates, save
from contrastive_st.search.exact import ExactIndex
from contrastive_st.vectors import unit_vectors


def random_index(n=400, d=80, seed=0):
    """Vectors of which many are near to another, in chains too, and some are equal."""
    rng = np.random.default_rng(seed)
    vectors = rng.standard_normal((n, d))
    for i in range(n // 2, n):
        vectors[i] = vectors[rng.integers(0, i)] + rng.choice([0.0, 0.1, 0.3, 0.5]) * rng.standard_normal(d)
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    ids = rng.permutation(10 * n)[:n]
    return ExactIndex(ids, [f"text {i}" for i in ids], vectors, [{"n": int(i)} for i in ids]), ids, vectors


def plain(ids, vectors, threshold):
    """Groups as sets of ids, and each id's best partner, by looking at every pair."""
    groups, best = {int(id): {int(id)} for id in ids}, {}
    scores = vectors.astype(np.float64) @ vectors.astype(np.float64).T
    for i in range(len(ids)):
        for j in range(i):
            if scores[i, j] >= threshold - 1e-6:
                a, b = int(ids[i]), int(ids[j])
                for one, other in ((a, b), (b, a)):
                    if scores[i, j] > best.get(one, (-1, 0))[0] + 1e-6:
                        best[one] = scores[i, j], other
                if groups[a] is not groups[b]:
                    groups[a] |= groups[b]
                    for member in groups[b]:
                        groups[member] = groups[a]
    return {frozenset(group) for group in groups.values() if len(group) > 1}, best


@pytest.mark.parametrize(("threshold", "head"), [(0.8, 200), (0.9, 4), (0.95, 64), (1.0, 4)])
def test_every_group_is_found_whatever_the_blocks(threshold, head, monkeypatch):
    monkeypatch.setattr(in_memory, "ROWS", 64)
    monkeypatch.setattr(in_memory, "COLUMNS", 128)
    monkeypatch.setattr(duplicates, "HEAD", head)
    index, ids, vectors = random_index()
    wanted, best = plain(ids, vectors, threshold)
    groups = find_duplicates(index, threshold)
    assert {frozenset(member.id for member in group) for group in groups} == wanted
    assert len(wanted) > 10
    assert [len(group) for group in groups] == sorted(map(len, wanted), reverse=True)
    for member in (member for group in groups for member in group):
        assert member.similarity == pytest.approx(best[member.id][0], abs=1e-5)
        assert member.text == f"text {member.id}"
        assert member.metadata == {"n": member.id}
        partner = vectors[list(ids).index(member.nearest)]
        assert float(partner @ vectors[list(ids).index(member.id)]) == pytest.approx(member.similarity, abs=1e-5)


def test_equal_texts_and_vectors_are_compared_once(monkeypatch):
    _, _, vectors = random_index(n=100)
    repeats = np.repeat(np.arange(100), [50, *[1] * 49, *[3] * 50])
    texts = [f"text {i}" if place % 2 else f"other {place}" for place, i in enumerate(repeats)]
    many = ExactIndex(np.arange(len(repeats)), texts, vectors[repeats])
    compared = []
    original = duplicates.near_pairs
    monkeypatch.setattr(duplicates, "near_pairs", lambda rows, *a: compared.append(len(rows)) or original(rows, *a))
    groups = find_duplicates(many, 0.9)
    assert compared == [len(np.unique(vectors, axis=0))]
    wanted, _ = plain(np.arange(len(repeats)), vectors[repeats], 0.9)
    assert {frozenset(member.id for member in group) for group in groups} == wanted
    assert min(m.similarity for group in groups for m in group if m.id < 50) == pytest.approx(1.0, abs=1e-6)


def test_the_pairs_of_many_near_vectors_are_handed_on_in_parts(monkeypatch):
    monkeypatch.setattr(in_memory, "_AT_ONCE", 100)
    vectors = np.ones((60, 4), np.float32) / 2
    parts = list(in_memory.near_pairs(vectors, 0.9))
    assert max(len(part[0]) for part in parts) == 100
    pairs = {(int(i), int(j)) for rows, columns, _ in parts for i, j in zip(rows, columns, strict=True)}
    assert len(pairs) == 60 * 59 // 2


def test_no_groups_limits_and_bad_outputs(tmp_path):
    index = ExactIndex([1, 2], ["a", "b"], np.eye(2, dtype=np.float32))
    assert find_duplicates(index) == []
    assert len(find_duplicates(random_index()[0], 0.9, limit=3)) == 3
    with pytest.raises(InputError, match=r"\.csv"):
        save([], tmp_path / "a.txt")


def test_files_hold_the_groups(tmp_path):
    groups = find_duplicates(random_index()[0], 0.9)
    rows = list(csv.DictReader(save(groups, tmp_path / "d.csv").read_text(encoding="utf-8").splitlines()))
    assert [(int(row["group"]), int(row["id"])) for row in rows] == [
        (number, member.id) for number, group in enumerate(groups, 1) for member in group
    ]
    groups[0][0] = replace(groups[0][0], id=1 << 60)
    content = json.loads(save(groups, tmp_path / "d.json").read_text())
    assert content[0][0]["id"] == str(1 << 60)  # a number would be rounded in JavaScript
    assert [[int(member["id"]) for member in group] for group in content] == [[m.id for m in group] for group in groups]


def test_the_most_repeated_text_is_first_and_ids_and_columns_of_the_file_are_kept(tmp_path):
    texts = ["N/A"] * 15 + ["a long report of the tides in the harbour, sent twice"] * 2
    vectors = np.repeat(np.eye(2, dtype=np.float32), [15, 2], axis=0)
    ids, metadata = [f"talk-{i}" for i in range(17)], [{"text": i, "day": f"2024-05-{i + 1:02}"} for i in range(17)]
    groups = find_duplicates(ExactIndex(ids, texts, vectors, metadata))
    assert [len(group) for group in groups] == [2, 15]
    assert {(member.id, member.nearest) for member in groups[0]} == {("talk-15", "talk-16"), ("talk-16", "talk-15")}
    rows = list(csv.DictReader(save(groups, tmp_path / "d.csv").read_text().splitlines()))
    assert list(rows[0]) == ["group", "id", "similarity", "nearest", "text", "own_text", "day"]
    assert (rows[0]["text"], sorted(row["id"] for row in rows)) == (texts[-1], sorted(ids))
    assert {int(row["own_text"]): row["day"] for row in rows} == {i: f"2024-05-{i + 1:02}" for i in range(17)}


def test_a_text_without_a_known_token_has_no_duplicates():
    """Also in an index that was made before such texts were left out: their vectors are equal and say nothing."""
    encoder = SentenceEncoder()
    texts = ["\U0001f600", "\U0001f680\U0001f680", "a cat sat", "a cat sat down"]
    vectors = unit_vectors(encoder.encode(texts))
    vectors[:2] = vectors[2] @ np.eye(encoder.dimension)[::-1]  # as the model of an unknown token gives them
    index = ExactIndex(np.arange(4), texts, vectors)
    assert sorted([one.id for one in group] for group in find_duplicates(index, 0.9)) == [[0, 1], [2, 3]]
    (group,) = find_duplicates(index, 0.9, knows=encoder.knows)
    assert [member.id for member in group] == [2, 3]
