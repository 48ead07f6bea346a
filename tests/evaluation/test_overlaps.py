"""Copies of one file in another, against a plain loop over all pairs; the command."""

import json
import re

import numpy as np
import pytest
from evaluation_files import write_all

from contrastive_st.cli import main
from contrastive_st.evaluation.overlaps import overlaps

RANDOM = np.random.default_rng(0)
NAMES = [f"w{i}" for i in range(12)]
A, B = ([" ".join(RANDOM.choice(NAMES, RANDOM.integers(1, 9))) for _ in range(count)] for count in (300, 120))


def jaccard(a, b):
    return len(a & b) / len(a | b)


@pytest.mark.parametrize("threshold", [0.5, 0.8, 1.0])
def test_copies_are_those_of_a_loop_over_all_pairs(threshold):
    found = overlaps(iter(A), iter(B), threshold)
    held = {tuple(text.split()): text for text in B}
    ours = {tuple(text.split()) for text in A}
    exact = {text for words, text in held.items() if words in ours}
    near = {}
    for words, text in held.items():
        best = max((jaccard(set(words), set(own)) for own in ours if len(set(own)) >= 3), default=0)
        if len(set(words)) >= 3 and best >= threshold and text not in exact:
            near[text] = best
    assert {copy.text for copy in found.exact} == exact
    assert {copy.text: pytest.approx(copy.similarity) for copy in found.near} == near
    assert (found.first, found.second) == (len(A), len(held))
    for copy in found.near:
        assert jaccard(set(copy.text.split()), set(copy.of.split())) == pytest.approx(copy.similarity)


def test_case_and_punctuation_are_no_difference():
    found = overlaps(["Two dogs, running!"], ["two dogs running", "Two dogs running.", "", "?"])
    assert (found.second, len(found.exact), found.near) == (1, 1, [])


def test_the_command(tmp_path, capsys):
    (tmp_path / "a.csv").write_text("anchor,positive\nA cat sat on the mat.,Rain fell.\nnothing,at all here\n")
    (tmp_path / "b.tsv").write_text("sentence1\tsentence2\tscore\na cat sat on the mat\tthe rain fell\t0.5\n")
    assert main(["overlaps", str(tmp_path / "a.csv"), str(tmp_path / "b.tsv"), "--threshold", "0.6"]) == 0
    said = capsys.readouterr().out
    assert "4 texts of A compared with 2 distinct texts of B" in said
    assert re.search(r"1 of B \(50.0%\) have exact copies", said)
    assert main(["overlaps", "a.csv", "b.csv", "--threshold", "0"]) == 2
    assert capsys.readouterr().err == "error: --threshold 0.0: give a number above 0 and at most 1\n"
    assert main(["overlaps", str(tmp_path / "a.csv"), "nothing-known"]) == 2
    assert "unknown task" in capsys.readouterr().err
    assert main(["overlaps", str(tmp_path / "a.csv"), "nofile.csv"]) == 2
    assert "nofile.csv: there is no such file" in capsys.readouterr().err


def test_what_is_not_compared_is_listed(tmp_path, caplog, capsys):
    """Parts of the evaluation without files, and columns; no question about scores, which are not compared."""
    (tmp_path / "a.csv").write_text("left,right,stars,votes\na cat sat,it rained,4,2\na dog ran,it snowed,1,3\n")
    lists = [{"query": "a cat sat", "pos": ["it rained", "a bus"]}, {"query": "a cat sat", "pos": ["it rained"]}]
    (tmp_path / "b.jsonl").write_text("\n".join(map(json.dumps, lists)))
    assert main(["overlaps", str(tmp_path / "a.csv"), str(tmp_path / "b.jsonl")]) == 0
    assert "4 texts of A compared with 3 distinct texts of B" in capsys.readouterr().out
    assert "compares left, right, and not stars, votes" in caplog.text
    write_all(tmp_path / "data")
    assert main(["overlaps", str(tmp_path / "a.csv"), "sts7", "--data", str(tmp_path / "data")]) == 0
    assert "SICKR is not compared: no folder SICK in the data folder" in caplog.text
