"""examples/train.py: the columns of a file decide what is trained; options of losses, prompts and guides."""

import json

import numpy as np
import pytest
import torch
from refusals import refusal
from scripts import load, tiny

from conftest import SENTENCES
from contrastive_st import InputError, SentenceEncoder
from contrastive_st.models import QuickThoughtsConfig, QuickThoughtsGRU

NAMES = {1: ["text"], 2: ["question", "answer"], 3: ["question", "answer", "negative"]}


def run(*args, text_file, output):
    return load("train").main(["--train_file", str(text_file), *tiny(*args), "--output_dir", str(output)])


def table(path, num_columns):
    columns = [SENTENCES[i:] + SENTENCES[:i] for i in range(num_columns)]
    rows = [",".join(NAMES[num_columns]), *(",".join(row) for row in zip(*columns, strict=True))]
    path.write_text("\n".join(rows))
    return path


@pytest.mark.parametrize(
    ("num_columns", "flags"),
    [  # `test_exactness.py` has each of these losses with each number of views
        (1, "--matryoshka_dims 16 4"),
        (
            3,
            "--matryoshka_dims 16 4 --matryoshka_weights 1 0.5 --chunk_size 3 --loss consistent_info_nce --js_weight 1",
        ),
        (1, "--guide static-minilm --margin 0.1 --chunk_size 3"),
        (
            3,
            "--guide static-minilm --margin_strategy relative --matryoshka_dims 16 8 --momentum_queue 6 "
            "--validation_split 0.3",
        ),
    ],
)
def test_dimensions_and_a_guide(num_columns, flags, tmp_path, monkeypatch):
    monkeypatch.setenv("CONTRASTIVE_ST_CACHE", str(tmp_path / "cache"))
    path = table(tmp_path / "t.csv", num_columns)
    run(*flags.split(), text_file=path, output=tmp_path / "out")
    contrastive = json.loads((tmp_path / "out" / "config.json").read_text())["contrastive"]
    inner = contrastive.get("inner", contrastive)
    assert ("matryoshka_dims" in flags) == (contrastive["loss"] == "matryoshka")
    wanted = "guided_info_nce" if "guide" in flags else "consistent_info_nce" if "js_weight" in flags else "info_nce"
    assert inner["loss"] == wanted
    encoder = SentenceEncoder.from_pretrained(tmp_path / "out")
    assert encoder.encode(SENTENCES, truncate_dim=4).shape == (8, 4)
    again = ["--model_name_or_path", str(tmp_path / "out"), *flags.split()]  # a trained encoder is trained on
    run(*again, text_file=path, output=tmp_path / "again")


def test_what_learns_by_no_loss_of_the_data_is_told_so_whatever_loss_is_asked_for(tmp_path):
    path = table(tmp_path / "t.csv", 2)
    QuickThoughtsGRU(QuickThoughtsConfig(vocab_size=60, embedding_size=4, hidden_size=8)).save_pretrained(tmp_path)
    for flags in ([], ["--loss", "targets"]):
        with pytest.raises(InputError, match="QuickThoughtsGRU does not learn by info_nce, consistent_info_nce"):
            run("--model_name_or_path", str(tmp_path), *flags, text_file=path, output=tmp_path / "out")


PROMPTS = {"query": "the cat ", "document": "old town: "}
NAMED = ["--prompts", *(f"{name}={prompt}" for name, prompt in PROMPTS.items())]


@pytest.mark.allow_warnings
@pytest.mark.parametrize(
    ("num_columns", "flags", "before"),
    [
        (1, "--default_prompt_name query", ["the cat"]),
        (2, "--include_prompt false --pooling mean --momentum_queue 6 --chunk_size 3", ["the cat", "old town :"]),
        (3, "--matryoshka_dims 16 4 --truncate_dim 4 --pooling max --include_prompt false",
         ["the cat", "old town :", "old town :"]),
    ],
)  # fmt: skip
def test_prompts_are_trained_with_saved_and_found_again(num_columns, flags, before, tmp_path, prompts_read):
    peer = pytest.importorskip("sentence_transformers").SentenceTransformer
    path = tmp_path / ("t.txt" if num_columns == 1 else "t.csv")
    path.write_text("\n".join(SENTENCES)) if num_columns == 1 else table(path, num_columns)
    run(*NAMED, *flags.split(), text_file=path, output=tmp_path / "out")
    assert prompts_read[0] == before * (2 if num_columns == 1 else 1)
    encoder, there = SentenceEncoder(tmp_path / "out"), peer(str(tmp_path / "out"), device="cpu")
    assert encoder.prompts == PROMPTS
    assert encoder.encode("a cat").shape == ((4,) if "truncate_dim" in flags else (16,))
    for how in ("encode_query", "encode_document", "encode"):
        np.testing.assert_allclose(getattr(encoder, how)(SENTENCES), getattr(there, how)(SENTENCES), atol=1e-5)
    prompts_read[1:] = []  # a folder with prompts is trained on with them
    run("--model_name_or_path", str(tmp_path / "out"), text_file=path, output=tmp_path / "again")
    assert SentenceEncoder(tmp_path / "again").checkpoint.include_prompt == ("include_prompt" not in flags)
    assert prompts_read[1] == prompts_read[0]


@pytest.mark.parametrize(
    ("script", "flags"),
    [
        ("run_simcse", ""),
        ("run_simcse", "--shuffle_buffer 10 --include_prompt false --pooling mean"),
        ("run_cutoff", ""),
        ("run_distill", "--teacher static-minilm --cache none"),
        (
            "run_distill",
            "--teacher static-minilm --cache none --include_prompt false --pooling max --order_seconds 0.1",
        ),
    ],
)
def test_every_script_of_texts_trains_them_with_their_prompt(script, flags, tmp_path, prompts_read):
    path = tmp_path / "t.txt"
    path.write_text("\n".join(SENTENCES * 4))
    given = ["--train_file", str(path)]
    named = ["--prompts", "topic=old town: ", "--default_prompt_name", "topic"]
    load(script).main([*given, *tiny(*flags.split(), *named), "--output_dir", str(tmp_path / "out")])
    base = ["--model_name_or_path", str(tmp_path / "out")]  # which records them
    flags = flags.partition(" --include_prompt")[0]
    load(script).main([*given, *tiny(*flags.split(), *base), "--output_dir", str(tmp_path / "again")])
    assert {views[0] for views in prompts_read} == {"old town :"}
    assert len(prompts_read) == 6


def test_a_run_is_resumed_with_its_prompts_and_no_others(tmp_path):
    path, out = table(tmp_path / "t.csv", 2), tmp_path / "out"
    given = ["--save_steps", "2", "--pooling", "mean", "--include_prompt", "false", "--dropout", "0.1"]
    run(*NAMED, *given, text_file=path, output=out)
    wanted = SentenceEncoder(out).model.state_dict()
    resume = [*given, "--resume_from_checkpoint", str(out / "checkpoint-2")]
    with pytest.raises(InputError, match="other data"):
        run("--prompts", "query=the dog ", "document=old town: ", *resume, text_file=path, output=out)
    run(*NAMED, *resume, text_file=path, output=out)
    again = SentenceEncoder(out).model.state_dict()
    assert all(torch.equal(tensor, again[name]) for name, tensor in wanted.items())


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--prompts", "query: "], "give each as NAME=TEXT"),
        (["--prompts", "query=a", "query=b"], "different names"),
        (["--prompts", "anchor=the "], "is for question, answer: name them query"),
        (["--default_prompt_name", "topic"], "unknown default_prompt_name 'topic'; there are none"),
        ([*NAMED, "--max_length", "4"], "takes 4 tokens and max_length is 4"),
        ([*NAMED, "--pooling", "cls", "--include_prompt", "false"], "choose cls_before_pooler, mean"),
        (["--truncate_dim", "4"], "is not one of --matryoshka_dims"),
        (["--truncate_dim", "8", "--matryoshka_dims", "16", "4"], "is not one of --matryoshka_dims"),
    ],
)
def test_prompts_that_cannot_be(flags, words, tmp_path):
    with refusal(words):
        run(*flags, text_file=table(tmp_path / "t.csv", 2), output=tmp_path / "out")


@pytest.mark.parametrize(
    ("flags", "scale", "loss", "temperature"),
    [
        ("", 1, "kl_distillation", 0.05),
        ("--loss margin_mse --chunk_size 3", 1, "margin_mse", None),
        ("--loss kl_distillation --in_batch_negatives true", 10, "kl_distillation", 1.0),
        ("", None, "info_nce", None),
        ("--guide static-minilm", None, "guided_info_nce", None),
    ],
)
def test_lists_of_negatives_with_and_without_scores(flags, scale, loss, temperature, tmp_path, monkeypatch):
    """FlagEmbedding's format, with rows of one and of two negatives, needs no flag."""
    monkeypatch.setenv("CONTRASTIVE_ST_CACHE", str(tmp_path / "cache"))
    rows = [{"query": text, "pos": [SENTENCES[i - 1]], "neg": SENTENCES[i - 3 : i - 2 + i % 2]}
            for i, text in enumerate(SENTENCES) if i > 2]  # fmt: skip
    for row in rows if scale else ():
        row |= {"pos_scores": [0.9 * scale], "neg_scores": [0.2 * scale] * len(row["neg"])}
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    run(*flags.split(), "--validation_split", "0.4", text_file=tmp_path / "t.jsonl", output=tmp_path / "out")
    contrastive = json.loads((tmp_path / "out" / "config.json").read_text())["contrastive"]
    assert (contrastive["loss"], contrastive.get("teacher_temperature")) == (loss, temperature)
    assert SentenceEncoder(tmp_path / "out").encode(SENTENCES).shape == (8, 16)
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert {"eval_loss", "eval_mrr"} <= set(results["after"])
