"""The Hub's `.eval_results`: read by huggingface_hub and, where it is installed, by mteb; `mteb` runs our models."""

import pytest
import yaml
from evaluation_files import bag_of_words, write_all, write_sts
from huggingface_hub import ModelCard, parse_eval_result_entries

from contrastive_st.cli import main
from contrastive_st.evaluation import evaluate
from contrastive_st.evaluation.datasets.senteval import SUBSETS
from contrastive_st.evaluation.report.report import Report, eval_results
from contrastive_st.evaluation.scorers import Score
from contrastive_st.files.folders import SHIPPED


@pytest.fixture
def report(tmp_path):
    write_all(tmp_path / "data")  # STS12 without three of its subsets
    write_sts(tmp_path / "data", "STS15", SUBSETS["STS15"])
    return evaluate([bag_of_words], "sts7,CR", tmp_path / "data", folds=2)


def test_each_whole_task_that_mteb_has_is_a_file(report):
    files = eval_results(report, "bag_of_words")
    assert sorted(files) == [".eval_results/STS15.yaml", ".eval_results/STSBenchmark.yaml"]
    [entry] = parse_eval_result_entries(yaml.safe_load(files[".eval_results/STSBenchmark.yaml"]))
    stsb = next(task for task in report.tasks if task.name == "STSB")
    assert entry.value == pytest.approx(100 * report.main("bag_of_words", stsb).value, abs=1e-4)
    assert (entry.dataset_id, entry.task_id) == ("mteb/stsbenchmark-sts", "STSBenchmark_default_test")
    assert "60 pairs" in entry.notes
    assert "tokenised" in entry.notes


def test_every_name_is_one_of_mteb():
    mteb = pytest.importorskip("mteb")
    from contrastive_st.evaluation.tasks import choose

    for task in choose("sts7,nanobeir"):
        split, metric, aggregation = task.main
        score = Score(task.name, split, metric, 0.5, aggregation, 10, model="m")
        [content] = eval_results(Report("files", [task], [score]), "m").values()
        [entry] = yaml.safe_load(content)
        name, _, split = entry["dataset"]["task_id"].rsplit("_", 2)
        metadata = mteb.get_task(name).metadata
        assert metadata.dataset["path"] == entry["dataset"]["id"], task.name
        assert metadata.eval_splits == [split]


def test_mteb_runs_a_model_by_name():
    """The scores of an STS task of mteb, without the Hub, are those of this package."""
    mteb = pytest.importorskip("mteb")
    from datasets import Dataset, DatasetDict

    from contrastive_st.integrations.mteb import MTEBModel

    task = mteb.get_task("STS12")
    rows = [{"sentence1": f"a cat {i}", "sentence2": f"a dog {i * i}", "score": float(i % 6)} for i in range(12)]
    task.dataset = {"default": DatasetDict({"test": Dataset.from_list(rows)})}
    task.load_data = lambda **options: None
    task.data_loaded = True
    found = mteb.evaluate(MTEBModel(SHIPPED), task, cache=None, encode_kwargs={}, co2_tracker=False)
    from contrastive_st import SentenceEncoder
    from contrastive_st.evaluation import EmbeddingSimilarityEvaluator

    columns = ([row[name] for row in rows] for name in ("sentence1", "sentence2", "score"))
    ours = EmbeddingSimilarityEvaluator(*columns, name="own")(SentenceEncoder(SHIPPED))
    assert found.task_results[0].get_score() == pytest.approx(ours["own_spearman"], abs=1e-6)


def test_the_command_writes_them_beside_the_card(tmp_path, report):
    card = tmp_path / "model" / "README.md"
    card.parent.mkdir()
    card.write_text("---\nlicense: mit\n---\n\nA model.\n")
    asked = ["evaluate", str(SHIPPED), "--tasks", "STSB", "--data", str(tmp_path / "data"), "--cache", "none"]
    assert main([*asked, "--card", str(card)]) == 0
    [entry] = yaml.safe_load((card.parent / ".eval_results" / "STSBenchmark.yaml").read_text())
    [result] = ModelCard.load(card).data.eval_results
    assert entry["value"] == pytest.approx(result.metric_value, abs=0.005)
