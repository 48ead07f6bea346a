"""The SimCSE job from the command line's arguments to the checkpoint, and what bad input gets."""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch
from contrastive_st.jobs import docs_search, simcse
from contrastive_st.jobs.simcse import parse

from conftest import SENTENCES
from contrastive_st import InputError, SentenceEncoder
from contrastive_st.models.default import open_encoder

TINY = ["--num_layers", "1", "--hidden_size", "16", "--per_device_train_batch_size", "4", "--max_steps", "3"]
TINY += ["--disable_tqdm", "true", "--learning_rate", "1e-3", "--logging_steps", "1"]


@pytest.fixture
def text_file(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("\n".join(SENTENCES), encoding="utf-8")
    return path


def run(*args, text_file=None, output=None):
    source = ["--train_file", str(text_file)] if text_file else []
    output = ["--output_dir", str(output)] if output else []
    return simcse.main([*source, *TINY, *output, *args], docs=text_file is None)


def test_a_text_file_becomes_a_checkpoint_with_a_curve(text_file, tmp_path, monkeypatch):
    monkeypatch.delenv("CONTRASTIVE_ST_DATA", raising=False)
    run(text_file=text_file, output=tmp_path / "out")
    assert SentenceEncoder.from_pretrained(tmp_path / "out").encode(SENTENCES).shape == (8, 16)
    assert (tmp_path / "out" / "training_curve.png").read_bytes()[:4] == b"\x89PNG"
    assert json.loads((tmp_path / "out" / "results.json").read_text()) == {"before": {}, "after": {}}


@pytest.mark.parametrize("num_columns", [2, 3])
def test_a_table_trains_pairs_or_triplets(num_columns, tmp_path):
    columns = [SENTENCES[i:] + SENTENCES[:i] for i in range(num_columns)]
    rows = [",".join(f"t{i}" for i in range(num_columns)), *(",".join(row) for row in zip(*columns, strict=True))]
    (tmp_path / "t.csv").write_text("\n".join(rows))
    run("--do_mlm", "true", text_file=tmp_path / "t.csv", output=tmp_path / "out")
    state = json.loads((tmp_path / "out" / "trainer_state.json").read_text())
    assert state["log_history"][0]["candidates"] == 4 * (num_columns - 1)
    weights = SentenceEncoder.from_pretrained(tmp_path / "out").model.state_dict()
    assert not any(name.startswith("cls.") for name in weights)


def test_a_shuffle_buffer_reads_the_file_while_training(text_file, tmp_path, monkeypatch):
    monkeypatch.setattr(simcse, "tokenize", None)
    run("--shuffle_buffer", "100", text_file=text_file, output=tmp_path / "out")
    assert SentenceEncoder.from_pretrained(tmp_path / "out").encode(SENTENCES).shape == (8, 16)
    with pytest.raises(InputError, match="reads one column"):
        run("--shuffle_buffer", "100", "--max_train_samples", "6", text_file=text_file, output=tmp_path / "out2")


def test_without_a_file_it_learns_to_search_documentation(tmp_path, monkeypatch, capsys):
    pairs = [docs_search.DocPair(a, f"{b} and more", "here") for a in SENTENCES for b in SENTENCES[:3]]
    monkeypatch.setattr(docs_search.DocsSearch, "load", classmethod(lambda cls: cls(pairs[:16], pairs[16:])))
    figures = run(output=tmp_path / "out")
    assert 0 <= figures["eval_mrr@10"] <= 1
    assert type(SentenceEncoder(tmp_path / "out").model).__name__ == "StaticEncoder"
    printed = capsys.readouterr().out
    assert all(word in printed for word in ("before training", "characters", "trained", *docs_search.QUERIES))


def test_sts_is_measured_where_it_is_at_hand(text_file, tmp_path, data_root):
    figures = run(text_file=text_file, output=tmp_path / "out")
    assert -1 <= figures["eval_stsb_spearman"] <= 1


def test_a_checkpoint_of_another_run_is_not_written_over(text_file, tmp_path):
    run("--save_steps", "2", text_file=text_file, output=tmp_path / "out")
    before = (tmp_path / "out" / "model.safetensors").read_bytes()
    with pytest.raises(InputError, match="holds another run"):
        run(text_file=text_file, output=tmp_path / "out")
    assert (tmp_path / "out" / "model.safetensors").read_bytes() == before
    run("--resume_from_checkpoint", "true", "--save_steps", "2", text_file=text_file, output=tmp_path / "out")
    run("--overwrite_output_dir", "true", text_file=text_file, output=tmp_path / "out")


@pytest.mark.parametrize(
    ("content", "args", "words"),
    [
        (None, [], "no such file"),
        ("", [], "empty"),
        ("one sentence\n", [], "two"),
        ("same\nsame\n", [], "no negatives"),
        ("a\n\nb\n", ["--strict", "true"], "line 2"),
        ("a b\nc d\n", ["--max_length", "2"], "3 or more"),
        ("a b\nc d\n", ["--max_length", "5000"], "positions"),
        ("a b\nc d\n", ["--pooling", "median"], "avg_top2"),
        ("a b\nc d\n", ["--load_best_model_at_end", "true", "--save_strategy", "no"], "STS-B"),
        ("a b\nc d\n", ["--resume_from_checkpoint", "true"], "no checkpoint"),
        ("a b\nc d\n", ["--model_name_or_path", "no/such-model"], "no/such-model"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing_behind(content, args, words, tmp_path, monkeypatch):
    monkeypatch.delenv("CONTRASTIVE_ST_DATA", raising=False)
    if content is not None:
        (tmp_path / "t.txt").write_text(content)
    with pytest.raises(InputError) as caught:
        run(*args, text_file=tmp_path / "t.txt", output=tmp_path / "out")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out" / "model.safetensors").exists()


def test_bytes_that_are_not_utf8_name_their_line(tmp_path):
    (tmp_path / "t.txt").write_bytes(b"fine\nna\xefve\n")
    with pytest.raises(InputError, match="line 2"):
        run(text_file=tmp_path / "t.txt", output=tmp_path / "out")


def test_defaults_belong_to_the_job_and_flags_win():
    docs, training = parse(["--num_layers", "3"], docs=True)
    assert (docs.model_name_or_path, docs.num_layers, training.per_device_train_batch_size) == (
        "static-minilm",
        3,
        2048,
    )
    text, training = parse(["--train_file", "x.txt"])
    assert (text.pooling, training.learning_rate) == (None, 3e-5)  # what the start records; cls from scratch
    with pytest.raises(InputError, match="contrastive-st train docs"):
        parse([])
    with pytest.raises(InputError, match="contrastive-st train simcse"):
        parse(["--train_file", "x.txt"], docs=True)


def test_importing_the_package_is_fast_and_imports_no_torch():
    code = "import sys, time; t = time.time(); import contrastive_st; print(time.time() - t, 'torch' in sys.modules)"
    seconds, torch_loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert torch_loaded == "False"
    assert float(seconds) < 0.5


def test_the_best_checkpoint_on_sts_is_what_is_saved(text_file, tmp_path, data_root):
    best = ["--load_best_model_at_end", "true", "--eval_strategy", "steps", "--eval_steps", "1", "--save_steps", "1"]
    figures = run(*best, text_file=text_file, output=tmp_path / "out")
    state = json.loads((tmp_path / "out" / "trainer_state.json").read_text())
    assert state["best_metric"] == figures["eval_stsb_spearman"]
    measured = [
        row["eval_stsb_spearman"] for row in state["log_history"] if row.get("eval_stsb_spearman") and row["step"]
    ]
    assert state["best_metric"] == max(measured)


@pytest.mark.parametrize(
    "flags",
    [
        "--matryoshka_dims 16 4",
        "--matryoshka_dims 16 4 --matryoshka_weights 1 0.5 --chunk_size 3 --js_weight 1",
        "--guide static-minilm --guide_margin 0.1 --chunk_size 3",
        "--guide static-minilm --guide_margin_strategy relative --matryoshka_dims 16 8 --momentum_queue 6",
    ],
)
@pytest.mark.parametrize("num_columns", [1, 3])
def test_dimensions_and_a_guide(flags, num_columns, tmp_path, monkeypatch):
    monkeypatch.setenv("CONTRASTIVE_ST_CACHE", str(tmp_path / "cache"))
    columns = [SENTENCES[i:] + SENTENCES[:i] for i in range(num_columns)]
    rows = [",".join(f"t{i}" for i in range(num_columns)), *(",".join(row) for row in zip(*columns, strict=True))]
    (tmp_path / "t.csv").write_text("\n".join(rows))
    run(*flags.split(), text_file=tmp_path / "t.csv", output=tmp_path / "out")
    contrastive = json.loads((tmp_path / "out" / "config.json").read_text())["contrastive"]
    inner = contrastive.get("inner", contrastive)
    assert ("matryoshka_dims" in flags) == (contrastive["loss"] == "matryoshka")
    wanted = "guided_info_nce" if "guide" in flags else "consistent_info_nce" if "js_weight" in flags else "info_nce"
    assert inner["loss"] == wanted
    encoder = SentenceEncoder.from_pretrained(tmp_path / "out")
    assert encoder.encode(SENTENCES, truncate_dim=4).shape == (8, 4)
    again = ["--model_name_or_path", str(tmp_path / "out"), *flags.split()]  # a trained encoder is trained on
    run(*again, text_file=tmp_path / "t.csv", output=tmp_path / "again")


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("--matryoshka_dims 64", "has 16 dimensions"),
        ("--matryoshka_dims 4 4", "different"),
        ("--matryoshka_weights 1", "give it too"),
        ("--matryoshka_dims 8 4 --matryoshka_weights 1", "one positive number"),
        ("--matryoshka_dims 16 4 --symmetric true --momentum_queue 6", "not symmetric"),
        ("--guide no/such-guide", "no/such-guide"),
        ("--guide static-minilm --js_weight 1", "give one of them"),
        ("--guide static-minilm --guide_margin_strategy half", "absolute, relative"),
        ("--guide static-minilm --shuffle_buffer 10", "or --guide"),
    ],
)
def test_dimensions_and_guides_that_cannot_be(flags, words, text_file, tmp_path, monkeypatch):
    monkeypatch.setenv("CONTRASTIVE_ST_CACHE", str(tmp_path / "cache"))
    with pytest.raises(InputError) as caught:
        run(*flags.split(), text_file=text_file, output=tmp_path / "out")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_belongs_together_in_a_docstring_is_a_pair():
    pair = docs_search.DocPair("Pad rows.", "Rows get one length. Zeros are put behind them. Masks follow.", "a.b")
    alone = docs_search.DocPair("Cut rows.", "Rows lose what is too long", "a.c")
    pairs = docs_search.DocsSearch([pair, alone], []).training_pairs()
    assert list(zip(pairs["anchor"], pairs["positive"], strict=True)) == [
        ("Pad rows.", pair.text), ("Cut rows.", alone.text), ("Pad rows.", "Rows get one length."),
        ("Rows get one length.", "Zeros are put behind them. Masks follow."),
    ]  # fmt: skip


PROMPTS = {"query": "the cat ", "document": "old town: "}
NAMED = ["--prompts", *(f"{name}={prompt}" for name, prompt in PROMPTS.items())]


def table(path, num_columns):
    columns = [SENTENCES[i:] + SENTENCES[:i] for i in range(num_columns)]
    rows = [",".join(f"t{i}" for i in range(num_columns)), *(",".join(row) for row in zip(*columns, strict=True))]
    path.write_text("\n".join(rows))
    return path


@pytest.mark.allow_warnings
@pytest.mark.parametrize(
    ("num_columns", "flags", "before"),
    [
        (1, "--default_prompt_name query --do_mlm true", ["the cat"]),
        (1, "--default_prompt_name query --shuffle_buffer 50", ["the cat"]),
        (2, "--include_prompt false --pooling mean --momentum_queue 6 --chunk_size 3", ["the cat", "old town :"]),
        (3, "--matryoshka_dims 16 4 --truncate_dim 4 --pooling max --include_prompt false",
         ["the cat", "old town :", "old town :"]),
    ],
)  # fmt: skip
def test_prompts_are_trained_with_saved_and_found_again(num_columns, flags, before, tmp_path, monkeypatch):
    peer = pytest.importorskip("sentence_transformers").SentenceTransformer
    monkeypatch.delenv("CONTRASTIVE_ST_DATA", raising=False)
    seen, first = [], simcse.ContrastiveTrainer.training_step

    def looked_at(self, model, inputs, *args):
        seen.append((inputs["input_ids"][0], inputs["text_mask"][0], self.processing_class))
        return first(self, model, inputs, *args)

    monkeypatch.setattr(simcse.ContrastiveTrainer, "training_step", looked_at)
    path = tmp_path / ("t.txt" if num_columns == 1 else "t.csv")
    path.write_text("\n".join(SENTENCES)) if num_columns == 1 else table(path, num_columns)
    run(*NAMED, *flags.split(), text_file=path, output=tmp_path / "out")
    ids, mask, tokenizer = seen[0]
    read = [tokenizer.decode(row[own == 0], skip_special_tokens=True) for row, own in zip(ids, mask, strict=True)]
    assert read == before * (2 if num_columns == 1 else 1)
    encoder, there = SentenceEncoder(tmp_path / "out"), peer(str(tmp_path / "out"), device="cpu")
    assert encoder.prompts == PROMPTS
    assert encoder.encode("a cat").shape == ((4,) if "truncate_dim" in flags else (16,))
    for how in ("encode_query", "encode_document", "encode"):
        np.testing.assert_allclose(getattr(encoder, how)(SENTENCES), getattr(there, how)(SENTENCES), atol=1e-5)
    seen.clear()  # a folder with prompts is trained on with them
    run("--model_name_or_path", str(tmp_path / "out"), text_file=path, output=tmp_path / "again")
    assert torch.equal(seen[0][1] == 0, seen[0][1] == 0)
    assert SentenceEncoder(tmp_path / "again").recorded.include_prompt == ("include_prompt" not in flags)
    assert (seen[0][1][0] == 0).sum() >= 3


@pytest.mark.allow_warnings
def test_a_static_encoder_learns_its_prompts(tmp_path, monkeypatch):
    peer = pytest.importorskip("sentence_transformers").SentenceTransformer
    monkeypatch.delenv("CONTRASTIVE_ST_DATA", raising=False)
    start, out = ["--model_name_or_path", "static-minilm"], tmp_path / "out"
    path = table(tmp_path / "t.csv", 2)
    run(*NAMED, *start, text_file=path, output=out)
    encoder, there = open_encoder(out), peer(str(out), device="cpu")
    for how in ("encode_query", "encode_document", "encode"):
        np.testing.assert_allclose(getattr(encoder, how)(SENTENCES), getattr(there, how)(SENTENCES), atol=1e-5)
    assert np.abs(encoder.encode_query(SENTENCES) - encoder.encode(SENTENCES)).max() > 1e-2
    with pytest.raises(InputError, match="unknown setting include_prompt"):
        run(*NAMED, *start, "--include_prompt", "false", text_file=path, output=tmp_path / "no")


def test_a_run_is_resumed_with_its_prompts_and_no_others(tmp_path, monkeypatch):
    monkeypatch.delenv("CONTRASTIVE_ST_DATA", raising=False)
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
        (["--prompts", "query: "], "give NAME=TEXT"),
        (["--prompts", "query=a", "query=b"], "different names"),
        (["--prompts", "anchor=the "], "are for no column of t0, t1: name them query"),
        (["--default_prompt_name", "topic"], "'topic' is none of the prompts (none are given)"),
        ([*NAMED, "--max_length", "4"], "takes 4 tokens and max_length is 4"),
        ([*NAMED, "--include_prompt", "false"], "choose mean"),
        ([*NAMED, "--templates", "[X] the [MASK]"], "do not work with prompts"),
        (["--truncate_dim", "4"], "none of --matryoshka_dims"),
        (["--truncate_dim", "8", "--matryoshka_dims", "16", "4"], "none of --matryoshka_dims"),
    ],
)
def test_prompts_that_cannot_be(flags, words, tmp_path):
    with pytest.raises(InputError) as caught:
        run(*flags, text_file=table(tmp_path / "t.csv", 2), output=tmp_path / "out")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
