"""Retrieval in BEIR's layout: trec_eval's figures, one-line errors, the command line, in training."""

import itertools
import shutil

import numpy as np
import pytest
from datasets import Dataset, DatasetDict
from refusals import refusal
from small_files import put

from contrastive_st import InputError
from contrastive_st.data.reading import MissingData, open_table
from contrastive_st.evaluation import SuiteEvaluator, evaluate, retrieval_evaluator
from contrastive_st.evaluation.datasets import hub_sets
from contrastive_st.evaluation.datasets.user_data import read_retrieval
from contrastive_st.evaluation.scorers.retrieval import graded_metrics
from contrastive_st.evaluation.tasks import beir_task, retrieval_task

CORPUS = {
    "d1": ("Tides", "The moon raises the tide twice a day."), "d2": ("", "A river runs to the sea."),
    "d3": ("Gauges", "A gauge reads the level of the tide."), "d4": ("", "The moon is full tonight."),
}  # fmt: skip
QUERIES = {"q1": "what raises the tide", "q2": "level of the tide", "q3": "nobody judged this", "q4": "full moon"}
QRELS = [("q1", "d1", 2), ("q1", "d4", 1), ("q2", "d3", 1), ("q2", "d2", 0), ("q4", "d4", 1), ("q3", "d1", 0)]


PARTS = {
    "corpus": [{"_id": key, "title": title, "text": text} for key, (title, text) in CORPUS.items()],
    "queries": [{"_id": key, "text": text} for key, text in QUERIES.items()],
    "qrels": [{"query-id": query, "corpus-id": document, "score": grade} for query, document, grade in QRELS],
}


@pytest.fixture
def folder(tmp_path):
    files = {"corpus.jsonl": PARTS["corpus"], "queries.jsonl": PARTS["queries"], "qrels": {"test.tsv": PARTS["qrels"]}}
    return put(tmp_path, "set", files)


def bag(texts):
    words = sorted({word for text in [*QUERIES.values(), *map(" ".join, CORPUS.values())] for word in tidy(text)})
    return np.array([[tidy(text).count(word) for word in words] for text in texts], np.float32)


def tidy(text):
    return text.lower().replace(".", "").split()


def test_figures_are_those_of_trec_eval(folder):
    pytrec_eval = pytest.importorskip("pytrec_eval")
    asked = [key for key in QUERIES if key != "q3"]
    a, b = bag([QUERIES[key] for key in asked]), bag([" ".join(CORPUS[key]) for key in CORPUS])
    cosine = (a / np.linalg.norm(a, axis=1, keepdims=True)) @ (b / np.linalg.norm(b, axis=1, keepdims=True)).T
    run = {key: dict(zip(CORPUS, map(float, row), strict=True)) for key, row in zip(asked, cosine, strict=True)}
    judged = {key: {d: g for q, d, g in QRELS if q == key} for key in asked}
    names = {"ndcg@2": "ndcg_cut_2", "recall@2": "recall_2", "recall@100": "recall_100"}
    theirs = pytrec_eval.RelevanceEvaluator(judged, {"ndcg_cut.2", "recall.2,100"}).evaluate(run)
    found = {score.metric: score for score in evaluate([bag], [beir_task(folder, k=2)], ".").scores}
    for ours, name in names.items():
        assert found[ours].value == pytest.approx(np.mean([own[name] for own in theirs.values()]), abs=1e-6)
    assert found["ndcg@2"].n == 3
    assert "BM25 ndcg@2" in found


def test_random_judgements_are_those_of_trec_eval():
    pytrec_eval = pytest.importorskip("pytrec_eval")
    rng = np.random.default_rng(0)
    for _ in range(30):
        scores = rng.permutation(300).astype(np.float64)
        documents = rng.choice(300, 20, replace=False)
        grades = rng.integers(0, 4, 20).astype(float)
        grades[0] = 1
        judged = {"q": {str(d): int(g) for d, g in zip(documents, grades, strict=True)}}
        theirs = pytrec_eval.RelevanceEvaluator(judged, {"ndcg_cut.10", "recall.10,100"}).evaluate(
            {"q": {str(i): float(score) for i, score in enumerate(scores)}}
        )["q"]
        ours = graded_metrics(scores, documents, grades)
        wanted = [theirs["ndcg_cut_10"], theirs["recall_10"], theirs["recall_100"]]
        assert [ours["ndcg@10"], ours["recall@10"], ours["recall@100"]] == pytest.approx(wanted, abs=1e-9)


@pytest.mark.parametrize("name", ["relevant", "is-relevant", "judgment", "gain"])
def test_a_grade_of_another_name_counts(folder, name):
    path = folder / "qrels" / "test.tsv"
    wanted = read_retrieval(folder)["test"].labels.tolist()
    path.write_text(path.read_text().replace("score", name))
    assert read_retrieval(folder)["test"].labels.tolist() == wanted


def test_the_index_of_a_data_frame_is_left_out_and_unknown_names_are_an_error(folder, caplog):
    wanted = read_retrieval(folder)["test"].labels.tolist()
    rows = [f"{number},{query},{document},{grade}" for number, (query, document, grade) in enumerate(QRELS)]
    (folder / "qrels" / "test.tsv").unlink()
    (folder / "qrels" / "test.csv").write_text("\n".join([",question,passage,label", *rows]))
    assert read_retrieval(folder)["test"].labels.tolist() == wanted
    assert "not used: ''" in caplog.text
    (folder / "qrels" / "test.csv").write_text("query-id,corpus-id,a,b\nq1,d1,1,0\n")
    with pytest.raises(InputError, match="columns"):
        read_retrieval(folder)


def test_a_judgement_without_a_grade_is_left_out_and_of_two_the_last_counts(folder, caplog):
    (folder / "qrels" / "test.tsv").unlink()
    rows = PARTS["qrels"]
    wanted = read_retrieval_of(folder, rows)
    assert read_retrieval_of(folder, [*rows, {"query-id": "q2", "corpus-id": "d1", "score": None}]) == wanted
    assert "1 of 7 rows have no score and are left out" in caplog.text
    twice = [{"query-id": "q3", "corpus-id": "d2", "score": grade} for grade in (1, 0)]
    assert read_retrieval_of(folder, [*rows, *twice]) == wanted
    assert "left out 1 of 8 judgements, as a later one of the same pair has another grade" in caplog.text
    evaluate([bag], [beir_task(folder)], ".")


def test_judgements_without_a_header_are_those_of_trec_eval(folder, caplog):
    """Also with ids that are numbers, of which the constant second column could be one."""
    path = folder / "qrels" / "test.tsv"
    names = {key: str(number) for number, key in enumerate([*CORPUS, *QUERIES])}
    for part, texts in (("corpus", CORPUS), ("queries", QUERIES)):
        put(folder, f"{part}.jsonl", [{"_id": names[key], "contents": str(texts[key])} for key in texts])
    rows = [f"{names[query]} 0 {names[document]} {grade}" for query, document, grade in QRELS]
    path.with_suffix(".txt").write_text("\n".join(rows))
    path.unlink()
    wanted = read_retrieval(folder)["test"].labels.tolist()
    path.with_suffix(".txt").unlink()
    assert len(wanted) == 5
    path.write_text("\n".join(row.replace(" ", "\t") for row in rows))
    assert read_retrieval(folder)["test"].labels.tolist() == wanted
    assert "test.tsv: no header: read as trec_eval does: query, iteration, document, grade" in caplog.text
    path.write_text("\n".join(row.replace(" 0 ", "\t").replace(" ", "\t") for row in rows))
    assert read_retrieval(folder)["test"].labels.tolist() == wanted
    assert "test.tsv: no header: read as BEIR does: query, document, grade" in caplog.text
    pairs = [row.cells for row in open_table(folder, split="test")]
    assert len(pairs) == sum(grade > 0 for _, _, grade in QRELS)
    assert pairs[0] == {"query": QUERIES["q1"], "positive": str(CORPUS["d1"])}


def test_training_on_a_folder_finds_the_columns_of_judgements_by_name(folder):
    wanted = [row.cells for row in open_table(folder, split="test")]
    put(folder / "qrels", "test.tsv", [{"rel": g, "corpus-id": d, "query-id": q} for q, d, g in QRELS])
    assert [row.cells for row in open_table(folder, split="test")] == wanted
    rows = [{"_id": key, "title": "NA" if key == "d1" else None, "text": text} for key, (_, text) in CORPUS.items()]
    put(folder, "corpus.jsonl", rows)
    assert next(iter(open_table(folder, split="test"))).cells["positive"] == CORPUS["d1"][1]


@pytest.mark.parametrize("layout", ["gzip", "splits", "parts", "parts with splits"])
def test_sets_that_are_compressed_or_saved_by_datasets(folder, tmp_path, layout):
    wanted = read_retrieval(folder)["test"].labels.tolist()
    path = tmp_path / "own"
    held = {name: Dataset.from_list(rows) for name, rows in PARTS.items()}
    if layout == "gzip":
        put(tmp_path, "own", {f"{name}.jsonl.gz": rows for name, rows in PARTS.items()})
    if layout == "splits":
        DatasetDict(held).save_to_disk(path)
    for name, data in held.items() if layout.startswith("parts") else ():
        made = {"parts": data, "parts with splits": DatasetDict({"test" if name == "qrels" else name: data})}[layout]
        made.save_to_disk(path / name)
    assert read_retrieval(path)["test"].labels.tolist() == wanted


SHARD = "{}-00000-of-00001.parquet"


@pytest.mark.parametrize("name", [SHARD, "{}.parquet", "{}/part-0.parquet", "{}.jsonl", "saved"])
def test_of_the_splits_of_a_part_the_one_that_is_asked_for_is_read(folder, name):
    """As of `qrels/SPLIT.tsv`: no other split is taken for it, nor merged with it."""
    wanted = read_retrieval(folder)["test"].labels.tolist()
    (folder / "qrels" / "test.tsv").unlink()
    with pytest.raises(MissingData, match=r"no qrels/test\.tsv"):
        read_retrieval(folder)

    def split(part, **splits):
        shutil.rmtree(folder / part, ignore_errors=True)
        if name == "saved":
            DatasetDict({key: Dataset.from_list(rows) for key, rows in splits.items()}).save_to_disk(folder / part)
        for key, rows in splits.items() if name != "saved" else ():
            put(folder / part, name.format(key), rows)

    other = [{"query-id": "q1", "corpus-id": "d2", "score": 1}]
    split("qrels", train=other, test=PARTS["qrels"], dev=other)
    assert read_retrieval(folder)["test"].labels.tolist() == wanted
    assert len(read_retrieval(folder, "dev")["test"].labels) == 1
    for without in ({"train": other, "dev": other}, {"train": other}):
        split("qrels", **without)
        with pytest.raises(MissingData, match=r"qrels has the splits train.*, and not test"):
            read_retrieval(folder)
    for part in ("corpus", "queries"):
        (folder / f"{part}.jsonl").unlink()
        split(part, train=PARTS[part])
    split("qrels", train=PARTS["qrels"])  # NanoBEIR's layout
    assert read_retrieval(folder)["test"].labels.tolist() == wanted
    split("qrels", test=PARTS["qrels"])
    split("corpus", train=PARTS["corpus"], test=PARTS["corpus"])
    assert read_retrieval(folder)["test"].labels.tolist() == wanted
    split("queries", train=PARTS["queries"], dev=PARTS["queries"])
    with pytest.raises(MissingData, match="queries has the splits train, validation, and not test"):
        read_retrieval(folder)


def read_retrieval_of(folder, rows):
    put(folder / "qrels", "test.jsonl", rows)
    return read_retrieval(folder)["test"].labels.tolist()


def test_equal_scores_are_of_no_help():
    found = graded_metrics(np.zeros(5), np.array([0, 1]), np.array([1.0, 3.0]), k=3)
    assert found == {"ndcg@3": 0.0, "recall@3": 0.0, "recall@100": 1.0, "mrr@3": 0.0}


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        ("qrels/test.tsv", "query-id\tcorpus-id\tscore\nq1\td9\t1", "row 2: there is no document d9"),
        ("qrels/test.tsv", "query-id\tcorpus-id\tscore\nq9\td1\t1", "row 2: there is no query q9"),
        ("qrels/test.tsv", "query\tcorpus-id\tc\nq1\td1\tgood", "no score among its columns"),
        ("qrels/test.tsv", "q1\td1\t0", "no query has a relevant document"),
        ("corpus.jsonl", '{"_id": null, "text": "x"}', "line 1: no _id and text"),
        ("corpus.jsonl", '{"key": "d1", "text": "x"}', "line 1: no _id and text"),
        ("queries.jsonl", '{"_id": "q", "text": "x"}\n{"_id": "q", "text": "y"}', "the id q occurs twice"),
    ],
)
def test_bad_rows_are_one_line(folder, file, text, words):
    (folder / file).write_text(text)
    with refusal(words):
        read_retrieval(folder)


def test_what_is_not_there_is_named(folder, tmp_path, monkeypatch):
    (folder / "queries.jsonl").unlink()
    with pytest.raises(MissingData, match=r"queries\.jsonl"):
        read_retrieval(folder)
    monkeypatch.setattr("datasets.load_dataset", lambda *args, **kwargs: 1 / 0)
    with pytest.raises(MissingData, match="NanoNQ"):
        hub_sets.read_nano("NanoNQ")


def test_nano_sets_are_read_by_name(monkeypatch):
    parts = {
        "corpus": [{"_id": key, "text": " ".join(text)} for key, text in CORPUS.items()],
        "queries": PARTS["queries"],
        "qrels": [{"query-id": q, "corpus-id": d} for q, d, grade in QRELS if grade],
    }
    monkeypatch.setattr("datasets.load_dataset", lambda name, part, split, revision: parts[part])
    report = evaluate([bag], [beir_task("NanoNQ")], ".")
    assert report.main("bag", report.tasks[0]).n == 3


def test_in_training(folder, bert_config, tokenizer):
    from contrastive_st import BertForCL

    model = BertForCL(bert_config, pooling="mean", similarity="dot").eval()
    assert set(SuiteEvaluator(tokenizer, [beir_task(folder)], ".")(model)) == {"set_ndcg@10"}
    words = dict.fromkeys(word for text in CORPUS.values() for word in tidy(" ".join(text)))
    pairs = [(f"{a} {b}", b) for a, b in itertools.pairwise(words)]
    found = retrieval_evaluator(tokenizer, *zip(*pairs, strict=True))(model)
    assert found["mrr@10"] == SuiteEvaluator(tokenizer, [retrieval_task("own", pairs)], ".")(model)["own_mrr@10"]


def test_documents_without_a_word_are_ranked_last(folder):
    put(folder, "corpus.jsonl", [{"_id": key, "text": None} for key in CORPUS])
    report = evaluate(
        [lambda texts: np.ones((len(texts), 2), np.float32)], [beir_task(folder, k=2)], ".", names=["ones"]
    )
    assert {score.metric: score.value for score in report.scores}["BM25 ndcg@2"] is not None
