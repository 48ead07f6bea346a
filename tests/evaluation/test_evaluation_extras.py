"""Few-shot classifiers, local metrics, mteb's interface, the commands, and evaluation in training."""

import argparse
import enum
import importlib.util
import types

import evaluate as hf_evaluate
import numpy as np
import pytest
import torch
from datasets import Dataset
from evaluation_files import bag_of_words, write, write_all
from refusals import refusal

from contrastive_st import BertForCL, InputError, SentenceEncoder, paraphrase_mining
from contrastive_st.evaluation.cli import Evaluate
from contrastive_st.evaluation.datasets.senteval import Rows, Splits, read_polarity
from contrastive_st.evaluation.scorers.few_shot import METHODS, centroids, nearest, score_few_shot
from contrastive_st.evaluation.suite import SuiteEvaluator
from contrastive_st.integrations import evaluate_metrics as metrics
from contrastive_st.integrations.mteb import MTEBModel
from contrastive_st.models.protocol import FunctionEncoder, as_encoder, with_options
from contrastive_st.options import add_flags, parsed
from contrastive_st.vectors import cosine


def test_the_mean_classifier_is_a_plain_mean():
    x, y = np.random.default_rng(0).normal(size=(40, 5)), np.arange(40) % 3
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    expected = [
        int(np.argmax([row @ (m := unit[y == k].mean(0)) / np.linalg.norm(m) for k in range(3)])) for row in unit
    ]
    assert nearest(centroids(x, y), x).tolist() == expected


def test_few_shot_curves_rise_and_all_methods_see_the_same_draws(tmp_path):
    parts = read_polarity(write_all(tmp_path, size=200), "CR/custrev.pos", "CR/custrev.neg")
    figures = score_few_shot(parts, bag_of_words, "CR", sizes=(5, 50, 5000))
    found = {f.aggregation: f for f in figures}
    assert len(figures) == 2 * len(METHODS)  # nobody has 5,000 examples a class here
    for name in METHODS:
        few, many = (found[f"{name}, {size} a class, 5 draws"] for size in (5, 50))
        assert many.value > 0.65
        assert few.deviation > 0
        assert many.n == 100
    again = score_few_shot(parts, bag_of_words, "CR", sizes=(5, 50, 5000))
    assert figures == again


def test_few_shot_of_missing_classes_few_rows_and_no_words():
    words = ["cat", "dog", "old"]
    train, test = (Rows(([words[i] for i in kinds],), np.array(kinds)) for kinds in ([0] * 20 + [2] * 15, [0, 1, 2, 2]))
    *found, quoted = score_few_shot(Splits({"train": train, "test": test}), bag_of_words, sizes=(10, 20, 100))
    assert [score.value for score in found] == [0.75] * 6  # of the class that has no examples, none is right
    assert (quoted.value, quoted.note) == (None, "no class has 100 examples")
    assert quoted.aggregation.startswith("mean classifier, 100 ")
    for texts, message in ((["a", "b", "c"], "t: 3 rows are too few"), ([" "] * 8, "t: all texts are empty")):
        rows = Rows((texts,), np.arange(len(texts)) % 2)
        with pytest.raises(InputError, match=message):
            score_few_shot(Splits({"all": rows}), bag_of_words, "t")
    assert METHODS["keywords"](None, np.array([0, 1, 1]), ["!", "?", "."], None, ["a cat"]).tolist() == [1]


def test_keywords_are_the_typical_words():
    texts = ["app froze again", "it froze", "frozen and froze", "lovely colours", "lovely app", "very lovely"]
    y = np.array([1, 1, 1, 0, 0, 0])
    predicted = METHODS["keywords"](None, y, texts, None, ["it froze today", "what lovely weather"])
    assert predicted.tolist() == [1, 0]


def test_metrics_combine_and_equal_the_functions():
    random_numbers = np.random.default_rng(0)
    x = random_numbers.normal(size=(12, 4))
    both = hf_evaluate.combine([metrics.Uniformity(), metrics.Anisotropy(), metrics.EffectiveRank()])
    both.add_batch(predictions=x[:5].tolist())
    both.add_batch(predictions=x[5:].tolist())
    found = both.compute()
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    off = ~np.eye(12, dtype=bool)
    assert found["anisotropy"] == pytest.approx((unit @ unit.T)[off].mean())
    assert found["uniformity"] == pytest.approx(np.log(np.exp(-2 * (2 - 2 * unit @ unit.T))[off].mean()))
    values = np.linalg.svd(x - x.mean(0), compute_uv=False)
    share = values / values.sum()
    assert found["effective_rank"] == pytest.approx(np.exp(-(share * np.log(share)).sum()))
    pairs = hf_evaluate.combine([metrics.Alignment(), metrics.Ranking()])
    found = pairs.compute(predictions=x.tolist(), references=(x + 1e-6).tolist())
    assert found["alignment"] == pytest.approx(0, abs=1e-9)
    assert found["mrr@10"] == 1.0


def test_mteb_gets_what_it_asks_for():
    model = MTEBModel(bag_of_words)
    loader = torch.utils.data.DataLoader(Dataset.from_dict({"text": ["cat", "dog", "old saw"]}), batch_size=2)
    vectors = model.encode(loader, task_metadata=None, hf_split="test", hf_subset="default", prompt_type=None)
    np.testing.assert_array_equal(vectors, bag_of_words(["cat", "dog", "old saw"]))
    assert model.similarity(vectors, vectors).shape == (3, 3)
    np.testing.assert_allclose(model.similarity_pairwise(vectors, vectors), 1)
    if importlib.util.find_spec("mteb") is None:
        with pytest.raises(InputError, match=r"\[mteb\]'"):
            _ = model.mteb_model_meta


def test_mteb_gets_the_prompt_of_its_type(bert_config, tokenizer):
    prompts = {"query": "the cat ", "document": "town: ", "topic": "a "}
    model = BertForCL(bert_config, pooling="mean", prompts=prompts, default_prompt_name="topic")
    adapter, encoder = MTEBModel(SentenceEncoder(model, tokenizer)), SentenceEncoder(model, tokenizer)
    kinds = enum.StrEnum("PromptType", ["query", "document"])
    for kind in (None, "query", kinds.query, kinds.document):
        wanted = encoder.encode(["old"], prompt_name=kind or "topic")
        np.testing.assert_array_equal(adapter.encode([{"text": ["old"]}], prompt_type=kind), wanted)


def test_an_object_with_encode_keeps_its_similarity_and_prompts():
    class Own:
        similarity_fn_name, prompts = "dot", {"STS": "x"}

        def encode(self, texts, prompt=""):
            return np.array([[2.0 * len(prompt + text), 0.0] for text in texts])

    adapter = MTEBModel(Own())
    task = types.SimpleNamespace(name="STS17", type="STS")
    assert adapter.encode([{"text": ["ab"]}], task_metadata=task, prompt_type="query").tolist() == [[6, 0]]
    assert float(adapter.similarity([[2.0]], [[3.0]])) == 6.0
    assert with_options(as_encoder(Own()), truncate_dim=1).similarity_fn_name == "dot"


@pytest.mark.parametrize("made", [bag_of_words, types.SimpleNamespace(encode=bag_of_words), FunctionEncoder("a", list)])
def test_a_function_has_no_options_of_a_checkpoint(made):
    for options in ({"pooling": "mean"}, {"precision": "bf16"}, {"max_length": 8}):
        with refusal(f"is a function has no option {next(iter(options))}; leave it out"):
            as_encoder(made, **options)
    assert as_encoder(made, precision="fp32", pooling=None, device="cpu")


def tensors(texts):
    return torch.tensor(bag_of_words(texts), dtype=torch.bfloat16, requires_grad=True)


@pytest.mark.parametrize(
    "encode",
    [
        bag_of_words,
        lambda texts, **ignored: bag_of_words(texts),
        lambda texts, prompt="", batch_size=2: bag_of_words([prompt + text for text in texts]),
        lambda texts: bag_of_words(texts).tolist(),
        lambda texts: list(bag_of_words(texts)),
        tensors,
        lambda texts: list(tensors(texts)),
    ],
    ids=["function", "kwargs", "named", "lists", "arrays", "tensor", "tensors"],
)
def test_options_have_an_effect_whatever_an_object_takes_and_returns(encode):
    texts, given = (
        ["old cat", "dog", "old dog", "a cat"],
        {"truncate_dim": 2, "batch_size": 1, "show_progress_bar": True},
    )
    wanted = bag_of_words([f"cat {text}" for text in texts])[:, :2]
    for made in (encode, types.SimpleNamespace(encode=encode)):
        asked = with_options(as_encoder(made), query={"prompt": "cat "}, **given)
        np.testing.assert_allclose(asked.encode_query(texts), wanted, rtol=0.01)
        np.testing.assert_allclose(asked.encode_document(texts), bag_of_words(texts)[:, :2], rtol=0.01)
        found = {(i, j): score for score, i, j in paraphrase_mining(made, texts, prompt="cat ", **given)}
        for (i, j), score in found.items():
            assert score == pytest.approx(cosine(wanted[[i]], wanted[[j]])[0], abs=0.01)
        with pytest.raises(InputError, match="unknown prompt 'topic'"):
            paraphrase_mining(made, texts, prompt_name="topic")


# ------------------------------------------------------------------ commands


def run(*arguments):
    parser = argparse.ArgumentParser()
    add_flags(parser, Evaluate)
    return parsed(Evaluate, parser.parse_args([str(argument) for argument in arguments]))()


def closed(*values):
    raise BrokenPipeError


def test_the_evaluate_command_prints_a_table_and_writes_files(checkpoint, tmp_path, capsys, monkeypatch):
    root = write_all(tmp_path / "data")
    write(tmp_path / "same.tsv", ["label\tsentence1\tsentence2", "1\tcat\tcat", "0\tcat\tdog"])
    write(tmp_path / "faq.tsv", ["query\tanswer", "old cat\tthe old cat", "new dog\ta new dog"])
    own = ("--pairs", tmp_path / "same.tsv", "--retrieval", tmp_path / "faq.tsv", "--names", "tiny")
    run(checkpoint, "--data", root, "--tasks", "STSB,STS13", "-o", tmp_path / "out", "--cache", "none", *own)
    out = capsys.readouterr().out
    assert "tiny: mean pooling, 16 tokens" in out
    assert "STS13 not run" in out
    assert all(word in out for word in ("same", "faq", "mrr@10"))
    assert (tmp_path / "out/report.json").is_file()
    monkeypatch.setattr("contrastive_st.evaluation.cli.say", closed)
    with pytest.raises(BrokenPipeError):
        run(checkpoint, "--cache", "none", "-o", tmp_path / "piped", *own)
    assert (tmp_path / "piped/report.json").is_file()
    monkeypatch.undo()
    monkeypatch.setenv("CONTRASTIVE_ST_DATA", str(tmp_path / "nowhere"))  # which own data alone does not need
    run(checkpoint, "--cache", "none", *own)
    assert "mrr@10" in capsys.readouterr().out
    with pytest.raises(InputError, match=r"variable CONTRASTIVE_ST_DATA: .*nowhere: no such folder"):
        run(checkpoint, "--cache", "none")
    monkeypatch.undo()
    for bad, message in (
        (["--data", tmp_path / "nowhere"], "no such folder"),
        (["--data", root, "--tasks", "STS99"], "unknown task"),
        (["--data", root, "--names", "a", "b"], "--names a b: give 1"),
        (["--data", root, "--folds", "1"], "--folds 1: give a whole number of 2 or more"),
    ):
        with pytest.raises(InputError, match=message):
            run(checkpoint, "--cache", "none", *bad)
    with pytest.raises(InputError, match="not evaluated: missing-model"):
        run(checkpoint, "missing-model", "--data", root, "--tasks", "STSB", "--cache", "none")
    assert "tiny" not in capsys.readouterr().out


def test_the_evaluator_restores_random_states_and_mode(tmp_path, bert_config, tokenizer):
    suite = SuiteEvaluator(tokenizer, "STSB", write_all(tmp_path), dev=False)
    model = BertForCL(bert_config, pooling="mean").train()
    state = torch.get_rng_state()
    figures = suite(model)
    assert torch.equal(torch.get_rng_state(), state)
    assert model.training
    assert list(figures) == ["stsb_spearman"]
    from contrastive_st.evaluation.suite import evaluate

    report = evaluate([SentenceEncoder(model, tokenizer)], "STSB", tmp_path)
    assert figures["stsb_spearman"] == report.main("model", report.tasks[0]).value
