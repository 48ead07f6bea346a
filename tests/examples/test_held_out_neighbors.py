"""The last table of raw text: TF-IDF as in scikit-learn, and what it says where the encoder is not above it."""

import numpy as np
import pytest
from scripts import load

PAIRS = [(f"alpha{i} beta", f"gamma alpha{i}") for i in range(40)]


@pytest.fixture
def found():
    return load("held_out_neighbors").HeldOutNeighbors(None, PAIRS, [text for pair in PAIRS for text in pair])


def test_both_kinds_of_tfidf_find_the_sentence_that_shares_a_rare_word(found):
    assert found.tfidf("TF-IDF of words").tolist() == [1.0] * 40
    assert found.tfidf("TF-IDF of characters").mean() > 0.9


def test_the_verdict_follows_the_interval(found):
    low, high = np.full(40, 0.1), np.linspace(0.9, 1.0, 40)
    found.found = [low, low]
    assert found.report().splitlines()[-1].startswith("The encoder is below TF-IDF of words")
    found.found = [low, np.ones(40)]
    assert found.report().splitlines()[-1].startswith("The encoder is not above TF-IDF of words")
    found.tfidf = lambda name: low
    found.found = [low, high]
    assert found.report().splitlines()[-1].startswith("  trained - before")
