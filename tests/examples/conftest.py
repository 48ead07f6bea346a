"""Files that several scripts train on."""

import pytest

from conftest import SENTENCES

LABELS = ["entailment", "neutral", "contradiction"]
PAIRS = [(f"{a} {i}", b) for i in range(3) for a in SENTENCES for b in SENTENCES[:3]]


@pytest.fixture
def nli(tmp_path):
    """A table of labelled pairs."""
    rows = ["premise\thypothesis\tlabel", *(f"{a}\t{b}\t{LABELS[i % 3]}" for i, (a, b) in enumerate(PAIRS))]
    (tmp_path / "nli.tsv").write_text("\n".join(rows) + "\n")
    return tmp_path / "nli.tsv"
