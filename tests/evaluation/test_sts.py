"""STS figures are scipy's, whatever the aggregation; retrieval and thresholds are what plain loops give."""

import numpy as np
import pytest
from evaluation_files import bag_of_words, write_all
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import accuracy_score, f1_score, ndcg_score

from contrastive_st.evaluation.datasets import senteval
from contrastive_st.evaluation.datasets.senteval import Splits, pair_rows
from contrastive_st.evaluation.scorers import retrieval
from contrastive_st.evaluation.scorers.retrieval import ranking_metrics, relevant_rows
from contrastive_st.evaluation.scorers.sts import (
    best_thresholds,
    correlate,
    score_pairs,
    score_space,
    score_splits,
    score_subsets,
)
from contrastive_st.vectors import cosine


def test_all_three_aggregations_are_scipys(tmp_path):
    parts = senteval.read_sts(write_all(tmp_path), "STS12")
    figures = {(f.metric, f.aggregation): f for f in score_subsets(parts, bag_of_words, "STS12")}
    assert all("incomplete: without SMTeuroparl" in figures["spearman", name].note for name in ("all", "mean", "wmean"))
    assert figures["spearman", "SMTeuroparl"].value is None
    ranked = lambda x, y: spearmanr(np.round(x, 6), y)  # rounding breaks no ties
    for metric, peer in (("pearson", pearsonr), ("spearman", ranked)):
        similarity, gold = {}, {}
        for name, rows in parts.items():
            a, b = (bag_of_words(column) for column in rows.columns)
            plain = [x @ y / np.sqrt(x @ x) / np.sqrt(y @ y) for x, y in zip(a, b, strict=True)]
            np.testing.assert_allclose(cosine(a, b), plain, rtol=0, atol=1e-14)
            similarity[name] = np.array(plain)
            gold[name] = rows.labels
        own = [peer(similarity[name], gold[name]).statistic for name in parts]
        whole = peer(np.concatenate(list(similarity.values())), np.concatenate(list(gold.values()))).statistic
        weights = [len(rows) for rows in parts.values()]
        for name, expected in (("all", whole), ("mean", np.mean(own)), ("wmean", np.average(own, weights=weights))):
            assert figures[metric, name].value == pytest.approx(expected, abs=1e-12)
            assert figures[metric, name].n == 60


def test_what_is_undefined_has_no_value_and_is_not_averaged():
    good = pair_rows([("cat sees", "cat"), ("dog", "saw"), ("old cat", "cat")], [4.0, 0.0, 3.0])
    equal = pair_rows([("a", "b"), ("c", "d")], [2.0, 2.0])
    figures = {f.aggregation: f for f in score_subsets(Splits({"x": good, "y": equal}, {}), bag_of_words, "T")
               if f.metric == "spearman"}  # fmt: skip
    assert figures["y"].note == "undefined: all scores are equal"
    assert figures["mean"].text == "not run"
    assert figures["all"].value is not None
    hub = score_subsets(Splits({"all": good}, {}), bag_of_words, "T")
    assert {f.aggregation: f.value is None for f in hub} == {"all": False, "mean": True, "wmean": True}


def test_missing_splits_are_not_run(tmp_path):
    parts = senteval.read_stsb(write_all(tmp_path))
    assert all(figure.value is not None for figure in score_splits(parts, bag_of_words, "STSB"))
    (tmp_path / "STS/STSBenchmark/sts-test.csv").unlink()
    figure = score_splits(senteval.read_stsb(tmp_path), bag_of_words, "STSB")[0]
    assert (figure.text, figure.note) == ("not run", "sts-test.csv is missing")


def test_cosine_of_zero_vectors_is_zero():
    assert cosine(np.array([[0.0, 0.0]]), np.array([[1.0, 0.0]])).tolist() == [0.0]


@pytest.mark.parametrize("seed", range(4))
def test_best_thresholds_are_what_trying_all_gives(seed):
    random = np.random.default_rng(seed)
    scores, gold = random.integers(12, size=40) / 12, random.random(40) < 0.4  # with ties
    best = best_thresholds(scores, gold)
    tried = [*np.unique(scores), 2.0]
    assert best["accuracy"][0] == pytest.approx(max(accuracy_score(gold, scores >= t) for t in tried))
    assert best["f1"][0] == pytest.approx(max(f1_score(gold, scores >= t, zero_division=0) for t in tried))
    assert accuracy_score(gold, scores >= best["accuracy"][1]) == pytest.approx(best["accuracy"][0])
    assert f1_score(gold, scores >= best["f1"][1]) == pytest.approx(best["f1"][0])


def test_pairs_of_one_label_are_undefined_and_train_thresholds_are_used():
    rows = pair_rows([("cat", "cat"), ("cat", "dog"), ("saw", "saw"), ("saw", "drill")], [1, 0, 1, 0])
    figures = {f.metric: f.value for f in score_pairs(Splits({"train": rows, "test": rows}, {}), bag_of_words, "T")}
    assert figures == dict.fromkeys(("average_precision", "best_accuracy", "best_f1", "accuracy", "f1"), 1.0)
    same = pair_rows([("cat", "cat"), ("cat", "dog")], [1, 1])
    assert "one label" in score_pairs(Splits({"test": same}, {}), bag_of_words, "T")[0].note


@pytest.mark.parametrize("first", [0, 1])
def test_labelled_pairs_of_equal_sentences_tie(first):
    """So the label of one says nothing of another, also at the threshold of the train split."""
    random, texts = np.random.default_rng(0), [str(i) for i in range(40)]
    vectors = dict(zip(texts, random.normal(size=(40, 16)).astype(np.float32), strict=True))
    rows = pair_rows(list(zip(texts, texts, strict=True)), [first, 1 - first] * 20)
    found = score_pairs(Splits({"train": rows, "test": rows}, {}), lambda own: np.array([vectors[t] for t in own]))
    values = {score.metric: score.value for score in found}
    assert values == pytest.approx({name: 2 / 3 if "f1" in name else 0.5 for name in values})


def test_ranking_metrics_are_those_of_a_plain_loop(monkeypatch):
    random = np.random.default_rng(0)
    queries, documents = random.normal(size=(20, 5)), random.normal(size=(50, 5))
    documents[7] = documents[3]  # a tie
    relevant = [sorted(random.choice(50, size=1 + i % 3, replace=False).tolist()) for i in range(20)]
    relevant[0] = [3]
    unit = [x / np.linalg.norm(x, axis=1, keepdims=True) for x in (queries, documents)]
    scores = (unit[0] @ unit[1].T).astype(np.float32)
    judged = random.permutation(relevant_rows(relevant))
    monkeypatch.setattr(retrieval, "_BLOCK", 7 * 50)
    figures = ranking_metrics(queries, documents, judged, k=5)
    mrr, recall, ndcg = [], [], []
    for row, own in zip(scores, relevant, strict=True):
        order = sorted(range(50), key=lambda i: (-row[i], i in own))
        first = min(order.index(i) for i in own)
        mrr.append(1 / (first + 1) if first < 5 else 0)
        recall.append(len(set(order[:5]) & set(own)) / len(own))
        ndcg.append(ndcg_score([[i in own for i in range(50)]], [[-order.index(i) for i in range(50)]], k=5))
    assert figures == pytest.approx(
        {"mrr@5": np.mean(mrr), "recall@5": np.mean(recall), "recall@100": 1.0, "ndcg@5": np.mean(ndcg)}
    )


def test_rounding_breaks_no_ties_and_nan_is_no_score_of_zero():
    angle = np.array([0.3, 0.3, 0.9, 1.2])
    noise = np.array([0, 1e-8, 0, 0])  # as float32 vectors of equal pairs differ by the batch they were in
    b = np.stack([np.cos(angle + noise), np.sin(angle + noise)], 1)
    gold = np.array([4.0, 5.0, 2.0, 1.0])
    exact = correlate("spearman", np.cos(angle), gold, "t", "test").value
    assert correlate("spearman", b[:, 0], gold, "t", "test").value == exact
    pairs = pair_rows([(f"a{i}", f"b{i}") for i in range(4)], gold)
    vectors = {f"a{i}": np.array([1.0, 0.0]) for i in range(4)} | {f"b{i}": b[i] for i in range(4)}
    found = score_splits(Splits({"test": pairs}, {}), lambda texts: np.stack([vectors[text] for text in texts]), "t")
    assert {score.metric: score.value for score in found if score.split == "test"}["spearman"] == exact


@pytest.mark.parametrize("scale", [1e-30, 1e-4, 1.0, 1e6])
def test_ranks_do_not_depend_on_the_length_of_vectors(scale):
    """Similarities are rounded in proportion: small ones keep their order, noise of large ones breaks no tie."""
    random = np.random.default_rng(0)
    predicted, gold = random.random(50), random.random(50)
    noise = np.tile([1.0, 1 + 1e-8], 25)
    ties = np.repeat(predicted[::2], 2)
    for values, wanted in ((predicted, predicted), (ties * noise, ties)):
        found = correlate("spearman", values * scale, gold, "t", "test").value
        assert found == pytest.approx(spearmanr(wanted.round(6), gold).statistic, abs=1e-12)
    assert (
        correlate("spearman", 1 + 1e-9 * predicted, gold, "t", "test").note == "undefined: all similarities are equal"
    )


def test_alignment_is_that_of_the_pairs_scored_above_four():
    rows = pair_rows([(f"a{i}", f"b{i}") for i in range(5)], [3.9, 4.0, 4.0, 4.1, 5.0])
    near = lambda text: text.startswith("a") or text == "b3"
    embed = lambda texts: np.array([[1.0, 0.0] if near(text) else [0.0, 1.0] for text in texts])
    alignment, *_ = score_space(Splits({"dev": rows}, {}), embed, "space")
    assert (alignment.value, alignment.n) == (1.0, 2)  # the squared distances 0 and 2
    rows = pair_rows([("a", "b"), ("a", "c"), ("b", "c")], [1.0, 4.0, 0.0])
    vectors = dict(zip("abc", np.random.default_rng(2).standard_normal((3, 5)), strict=True))
    embed = lambda texts: np.array([vectors[text] for text in texts])
    found = {score.metric: score for score in score_space(Splits({"dev": rows}, {}), embed, "space")}
    assert (found["alignment"].text, found["alignment"].note) == ("not run", "undefined: no pairs scored above 4")
    assert np.isfinite(found["uniformity"].value)
    one = score_space(Splits({"dev": pair_rows([("a", "a")], [5.0])}, {}), embed, "space")
    undefined = {
        score.metric for score in one if (score.value, score.note) == (None, "undefined: fewer than two sentences")
    }
    assert undefined == {"uniformity", "anisotropy"}
