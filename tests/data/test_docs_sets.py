"""Labelled pairs and triplets of the installed documentation, and the parts that labelled pairs are split into."""

import pytest
from datasets import Dataset

from contrastive_st import InputError
from contrastive_st.data import DocPair, sample, split_by_first
from contrastive_st.data.docs_sets import labelled_docs, triplets_of


def test_documentation_becomes_labelled_pairs():
    pairs = [DocPair(f"title {p} {i}", f"text {p} {i}", f"{p}.module{i // 3}.f{i}") for p in "ab" for i in range(7)]
    rows = labelled_docs(pairs)
    for first, second, label, score in zip(*(rows[name] for name in rows.column_names), strict=True):
        (_, p, i), (_, q, j) = first.split(), second.split()
        assert score == 1 - label / 2
        if label == 0:
            assert (p, i) == (q, j)
        elif label == 1:
            assert (p, int(i) // 3) == (q, int(j) // 3)
            assert i != j
        else:
            assert p != q
    assert rows["label"][:].count(1) == 12  # the seventh of each package is alone in its module
    triplets = triplets_of(rows)
    assert len(triplets) == 14
    assert all(
        a.split()[1:] == p.split()[1:] != n.split()[1:] for a, p, n in zip(*triplets.to_dict().values(), strict=True)
    )
    parts = split_by_first(rows)
    assert sum(map(len, parts)) == len(rows)
    train, dev, test = (set(part["first"]) for part in parts)
    assert train
    assert not train & dev | train & test | dev & test


def test_too_few_first_texts_to_hold_some_out():
    with pytest.raises(InputError, match="pairs"):
        split_by_first(Dataset.from_dict({"first": ["a"] * 3, "second": ["b", "c", "d"], "label": [0, 1, 2]}))


def test_a_sample_is_drawn_by_its_seed():
    rows = Dataset.from_dict({"text": [str(i) for i in range(50)]})
    drawn = sample(rows, 10)["text"][:]
    assert len(set(drawn)) == 10
    assert drawn == sample(rows, 10)["text"][:] != sample(rows, 10, seed=1)["text"][:]
    assert sample(rows, None) is sample(rows, 60) is rows
