"""The suite: sentences once, a cache, failures by name, a report that says what was not run."""

import json

import numpy as np
import pytest
from evaluation_files import bag_of_words, write_all

from contrastive_st import InputError
from contrastive_st.evaluation.embedding_store import EmbeddingStore
from contrastive_st.evaluation.report.report import write_metadata
from contrastive_st.evaluation.suite import evaluate
from contrastive_st.evaluation.tasks import retrieval_task
from contrastive_st.files.cards import read_head
from contrastive_st.models.protocol import FunctionEncoder

TASKS = "STS12,STSB,space,CR,TREC,MRPC,SST2,STSB-supervised"


@pytest.fixture
def root(tmp_path):
    return write_all(tmp_path / "data")


def test_a_report_holds_every_figure_with_its_settings(root, tmp_path):
    report = evaluate([bag_of_words], TASKS + ",STS13", root, folds=3)
    rows = json.loads(report.json())["scores"]
    assert {row["task"] for row in rows} == {*TASKS.split(","), "STS13"}
    for row in rows:
        assert row["model"] == "bag_of_words"
        assert all(name in row for name in ("task", "split", "metric", "aggregation", "pooling", "max_length", "n"))
        assert row["value"] is None or row["n"] > 0
        assert row["value"] is not None or row["note"]
    main = {task.name: report.main("bag_of_words", task) for task in report.tasks}
    assert main["CR"].value > 0.85
    assert main["TREC"].value == 1.0  # the question word gives the class away
    assert (main["STS13"].text, main["STS13"].note) == ("not run", "no folder STS/STS13-en-test in the data folder")

    paths = {path.name for path in report.save(tmp_path / "report")}
    assert paths == {"report.json", "report.md"}
    markdown = (tmp_path / "report/report.md").read_text()
    assert "| bag_of_words | STS13 | test | spearman | all | not run |" in markdown


def test_a_model_that_returns_nan_is_named_and_the_others_are_not_touched(root):
    def broken(texts):
        vectors = bag_of_words(texts)
        vectors[["old" in text for text in texts]] = np.nan
        return vectors

    report = evaluate([broken, bag_of_words], "STS12,STSB", root)
    assert "the embeddings of broken: row 0 is NaN or infinite" in report.failures["broken"]
    assert all(figure.value is None for figure in report.scores if figure.model == "broken")
    assert report.average("broken", "sts").value is None
    alone = evaluate([bag_of_words], "STS12,STSB", root)
    assert [f for f in report.scores if f.model == "bag_of_words"] == alone.scores
    of_space = evaluate([broken, bag_of_words], "space", root).rows()
    assert all(failed.value is None for failed, _ in of_space)
    assert [score for _, score in of_space] == evaluate([bag_of_words], "space", root).scores  # no row of its own
    with pytest.raises(InputError, match="returns"):
        EmbeddingStore(FunctionEncoder("flat", lambda texts: np.ones(len(texts))), ["a", "b"])


def test_the_cache_of_float32_gives_nothing_to_other_precisions(tmp_path):
    """All precisions of a checkpoint have its fingerprint, and their embeddings differ."""

    def encoder(precision, scale):
        model = FunctionEncoder(precision, lambda texts: np.full((len(texts), 2), scale), fingerprint="same")
        model.precision = precision
        return model

    for precision, scale in (("int8", 3.0), ("fp32", 1.0), ("bf16", 2.0), ("int8", 3.0)):
        model = encoder(precision, scale)
        assert EmbeddingStore(model, ["a"], tmp_path)(["a"]).max() == scale
    assert EmbeddingStore(encoder("fp32", 9.0), ["a"], tmp_path)(["a"]).max() == 1, "float32 is kept"


def test_each_distinct_sentence_is_encoded_once_and_a_new_task_encodes_only_what_is_new(root, tmp_path):
    asked = []

    def counting(texts):
        asked.extend(texts)
        return bag_of_words(texts)

    model = FunctionEncoder("counting", counting, fingerprint="abc")
    first = evaluate([model], "STSB,STSB-supervised,space", root, cache=tmp_path / "cache")
    assert len(asked) == len(set(asked)) > 0
    known = set(asked)
    asked.clear()
    both = evaluate([model], "STSB,STSB-supervised,space,CR", root, cache=tmp_path / "cache", folds=3)
    assert asked
    assert not known & set(asked)
    assert both.scores[: len(first.scores)] == first.scores
    for path in (tmp_path / "cache/abc").glob("*.npz"):
        path.write_bytes(b"damaged")
    asked.clear()
    assert evaluate([model], "STSB", root, cache=tmp_path / "cache").scores == first.scores[:4]
    assert asked


def test_queries_and_documents_are_encoded_as_such(tmp_path):
    class Prompted(FunctionEncoder):
        def encode_query(self, texts):
            return self.encode([f"query: {text}" for text in texts])

        def encode_document(self, texts):
            return self.encode([f"passage: {text}" for text in texts])

    places = {"query: a": 0, "passage: a": 1, "passage: b": 0, "query: b": 1}  # without prompts, nothing is found
    asked = []

    def encode(texts):
        asked.extend(texts)
        return np.eye(2)[[places[text] for text in texts]]

    task = retrieval_task("swapped", [("a", "b"), ("b", "a")])
    for _ in range(2):
        report = evaluate([Prompted("prompted", encode, fingerprint="f")], [task], ".", cache=tmp_path)
        assert report.main("prompted", task).value == 1
        assert sorted(asked) == sorted(places), "each is encoded once, and kept"


def test_scores_of_other_tasks_stay_on_the_card(root, tmp_path):
    card = tmp_path / "README.md"
    card.write_text(
        "---\nlanguage: no\ntags: [a, a]\neval_results: 3\nmodel-index: [{name: alice/tiny}]\n---\n# A model\n"
    )
    first = evaluate([bag_of_words], "STSB,TREC,STS13", root, folds=3, names=["alice/tiny"])
    write_metadata(first, "alice/tiny", card)
    written = card.read_text()
    assert written.endswith("# A model\n")
    write_metadata(evaluate([bag_of_words], "TREC", root, folds=3, names=["tiny"]), "tiny", card)
    assert card.read_text() == written
    lengths = lambda texts: np.array([[len(text), 1.0] for text in texts])
    again = evaluate([lengths], "STSB", root, names=["tiny"])
    write_metadata(again, "tiny", card)
    head = read_head(card)
    [index] = head.pop("model-index")
    assert head == {"language": "no", "tags": ["a", "a"], "eval_results": 3}
    values = {result["dataset"]["name"]: result["metrics"][0]["value"] for result in index["results"]}
    quoted = [
        report.main(name, report.tasks[i]).value for report, name, i in ((again, "tiny", 0), (first, "alice/tiny", 1))
    ]
    assert "60 scored" in index["results"][0]["metrics"][0]["name"]
    assert values == dict(zip(("STSB", "TREC"), (round(100 * value, 2) for value in quoted), strict=True))
    assert index["name"] == "alice/tiny"


def test_a_task_that_cannot_be_scored_takes_no_other_with_it(root, caplog):
    for name in ("pos", "neg"):
        path = root / "CR" / f"custrev.{name}"
        path.write_text("".join(path.read_text().splitlines(keepends=True)[:5]))
    report = evaluate([bag_of_words], "STSB,CR", root, folds=10)
    why = "CR: a class has 5 examples only, too few for 10 folds; use fewer folds"
    found = {task.name: report.main("bag_of_words", task) for task in report.tasks}
    assert found["STSB"].value is not None
    assert (found["CR"].text, found["CR"].note) == ("not run", why)
    assert f"CR is not run: {why}" in caplog.text
    assert not report.failures
    assert evaluate([bag_of_words], "CR", root, folds=10).failures == {"bag_of_words": why}
    (root / "CR" / "custrev.pos").write_text("")
    with pytest.raises(InputError, match="custrev"):
        evaluate([bag_of_words], "STSB,CR", root)
