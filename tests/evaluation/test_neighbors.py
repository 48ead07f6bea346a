"""Nearest neighbours: exact, in blocks, side by side."""

import tracemalloc

import numpy as np
import pytest
from datasets import Dataset
from evaluation_files import bag_of_words
from refusals import refused, told

from conftest import SENTENCES, save_both
from contrastive_st import BertForCL, SentenceEncoder
from contrastive_st.cli import main
from contrastive_st.evaluation import neighbor_search as module
from contrastive_st.evaluation.neighbor_search import as_markdown, as_text, nearest, neighbors
from contrastive_st.models.protocol import FunctionEncoder


def full_argsort(queries, candidates, k):
    """Every cosine at once; the lower number first where two are equal."""
    a, b = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (queries, candidates))
    scores = a @ b.T
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(scores, order, 1), order


def cut(candidates, *at):
    return np.split(candidates, at)


@pytest.mark.parametrize("k", [1, 5, 60, 500])
@pytest.mark.parametrize("at", [(), (0, 7, 7, 50, 119), tuple(range(1, 120))])
@pytest.mark.parametrize("tied", [False, True])
def test_a_running_merge_equals_a_full_argsort(k, at, tied):
    random = np.random.default_rng(k)
    queries, candidates = random.normal(size=(9, 4)), random.normal(size=(120, 4))
    if tied:  # on the axes, exactly: of equal cosines the lower number comes first
        candidates = np.eye(4)[random.integers(4, size=120)] * 2.0 ** random.integers(-2, 3, size=(120, 1))
    scores, found = nearest(queries, cut(candidates, *at), k)
    expected, order = full_argsort(queries, candidates, k)
    assert (len(set(expected[0].tolist())) <= 4) == (tied or k == 1)
    np.testing.assert_array_equal(found, order)
    np.testing.assert_allclose(scores, expected, atol=1e-12)


def test_many_queries_zero_vectors_and_half_width(monkeypatch):
    monkeypatch.setattr(module, "_QUERIES", 4)
    random = np.random.default_rng(0)
    queries, candidates = random.normal(size=(11, 3)), random.normal(size=(40, 3)).astype(np.float16)
    candidates[5] = 0
    scores, found = nearest(queries, cut(candidates, 13), 40)
    assert scores[np.arange(11), (found == 5).argmax(1)].tolist() == [0] * 11
    others = np.delete(candidates.astype(np.float64), 5, axis=0)
    expected, _ = full_argsort(queries, others, 39)
    np.testing.assert_allclose(scores[found != 5].reshape(11, 39), expected, atol=1e-6)
    assert nearest(queries[:0], [candidates], 3)[1].shape == (0, 3)


def test_nothing_of_the_size_of_queries_times_corpus_is_held():
    random = np.random.default_rng(0)
    queries = random.normal(size=(64, 8)).astype(np.float32)
    blocks = (random.normal(size=(1000, 8)).astype(np.float32) for _ in range(100))
    tracemalloc.start()
    nearest(queries, blocks, 5)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 * 100_000 * 4 / 10


def test_the_query_itself_is_left_out():
    encoder = FunctionEncoder("words", bag_of_words)
    corpus = ["a cat and a dog", "the cat", "the dog", "a horse", "the cat and the dog"]
    (own,) = neighbors(encoder, ["a cat and a dog"], corpus, 2)
    assert [text for _, text in own] == ["the cat and the dog", "the cat"]
    (other,) = neighbors(encoder, ["one cat and one dog"], corpus, 2)
    assert [text for _, text in other] == ["a cat and a dog", "the cat and the dog"]
    assert [score for score, _ in other] == pytest.approx([1, 1])
    (few,) = neighbors(encoder, ["a horse"], corpus, 9)
    assert len(few) == 4


def test_tables_are_no_wider_than_asked_and_a_bar_of_a_text_is_none_of_theirs():
    found = {"A": [[(0.9, "one two three four five six"), (0.8, "b|c")]], "B": [[(0.7, "x")]]}
    lines = as_text(["query"], found, 50).splitlines()
    assert max(map(len, lines)) <= 50
    assert lines[3].split() == ["four", "five", "six"]
    assert as_markdown(["query"], found, "Nearest.").splitlines()[-1] == "| 0.800 | b\\|c |  |  |"


# ------------------------------------------------------------------ the command


@pytest.fixture
def checkpoints(bert_config, tokenizer, tmp_path):
    for name, pooling in (("one", "mean"), ("two", "cls")):
        save_both(BertForCL(bert_config, pooling=pooling), tokenizer, tmp_path / name)
    return [str(tmp_path / "one"), str(tmp_path / "two")]


@pytest.mark.parametrize("kind", ["txt", "parquet"])
def test_the_command_prints_two_models_side_by_side(checkpoints, kind, tmp_path, capsys):
    corpus = [*SENTENCES, SENTENCES[0], SENTENCES[2]]  # a sentence that is there twice is found once
    if kind == "txt":
        (tmp_path / "corpus.txt").write_text("\n".join(corpus))
    else:
        Dataset.from_dict({"text": corpus, "doc": range(10)}).to_parquet(str(tmp_path / "corpus.parquet"))
    (tmp_path / "queries.txt").write_text(f"{SENTENCES[2]}\n\n{SENTENCES[2]}\n")
    arguments = ["neighbors", *checkpoints, "--corpus", str(tmp_path / f"corpus.{kind}"), "--query", "a cat",
                 "--query-file", str(tmp_path / "queries.txt"), "-k", "3",
                 "--output", str(tmp_path / "out.md")]  # fmt: skip
    printed = told(capsys, *arguments).out
    tables = (tmp_path / "out.md").read_text()
    assert "8 distinct sentences of corpus." in tables
    assert printed.count("\n\n") == 1
    for query in ("a cat", SENTENCES[2]):
        rows = tables.split(f"**{query}**")[1].split("**")[0].strip().splitlines()
        assert rows[0] == "| cosine | one | cosine | two |"
        others = [text for text in SENTENCES if text != query]
        for model, column in zip(checkpoints, (1, 3), strict=True):
            cosines = SentenceEncoder.from_pretrained(model).similarity([query], others)[0]
            order = np.argsort(-cosines)[:3]
            cells = [row.split("|") for row in rows[2:]]
            assert [row[column + 1].strip() for row in cells] == [others[i] for i in order]
            assert [float(row[column]) for row in cells] == pytest.approx(cosines[order].tolist(), abs=1e-3)
    assert main([*arguments, "--max_sentences", "2", "--names", "first", "second"]) == 0
    assert "2 distinct sentences" in (tmp_path / "out.md").read_text()
    assert "| cosine | first | cosine | second |" in (tmp_path / "out.md").read_text()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "no query: give"),
        (["--query", " "], "no query: give"),
        (["--query", "a", "-k", "0"], "-k 0"),
        (["--query", "a", "--names", "x", "y"], "--names x y"),
        (["--query", "a", "--max_sentences", "0"], "--max_sentences 0"),
        (["--query", "a", "--output", "x.txt"], ".md"),
        (["--query", "a", "--output", "no/such/x.md"], "does not exist"),
        (["--query_file", "none.txt"], "none.txt"),
        (["--query", "a", "--corpus", "none.txt"], "none.txt"),
        (["--query", "a", "--columns", "x"], "'x'"),
    ],
)
def test_bad_input_is_one_line(options, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "c.txt").write_text("a\n")
    assert words in refused(capsys, "neighbors", "/no/such/model", "--corpus", "c.txt", *options)


def test_the_same_model_twice(tmp_path, capsys):
    assert "twice" in refused(capsys, "neighbors", "m", "m", "--corpus", "c.txt", "--query", "a")
