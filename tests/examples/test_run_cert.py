"""CERT: back-translations are made and kept as pairs; both stages run, from ready pairs too."""

import contextlib
import csv
import itertools
import json
import shutil

import pytest
import torch
import transformers
from safetensors.torch import load_file
from scripts import load, tiny

import few_labels
from back_translation import Translator, back_translate, write_pairs
from conftest import SENTENCES, save_both
from contrastive_st import AutoModelForCL, BertForCL
from contrastive_st.data import read_texts
from contrastive_st.errors import InputError


@pytest.fixture
def translator(tokenizer, tmp_path):
    """A tiny translation model, which has learned nothing."""
    config = transformers.BartConfig(
        vocab_size=len(tokenizer), d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=16, decoder_ffn_dim=16, max_position_embeddings=200, pad_token_id=0,
        bos_token_id=2, eos_token_id=3, decoder_start_token_id=2, forced_eos_token_id=3, init_std=1.0,
    )  # fmt: skip
    save_both(transformers.BartForConditionalGeneration(config), tokenizer, tmp_path / "translator")
    return str(tmp_path / "translator")


def test_texts_go_there_and_back_in_batches():
    sizes = []

    def there(texts):
        sizes.append(len(texts))
        return [f"<{text}>" for text in texts]

    back = lambda texts: ["" if "blank" in text else text[1:-1].replace("big", "large") for text in texts]
    texts = ["a big dog", "same", "blank", "the big, big sea", "a big cat"]
    pairs = list(back_translate(iter(texts), there, back, batch_size=2))
    assert sizes == [2, 2, 1]
    assert pairs == [
        ("a big dog", "a large dog"), ("the big, big sea", "the large, large sea"), ("a big cat", "a large cat"),
    ]  # fmt: skip


def test_pairs_are_read_as_they_were_written(tmp_path):
    pairs = [("a, b", 'he said "no"'), ("line", "other")]
    assert write_pairs(pairs, tmp_path / "pairs.csv") == 2
    assert [tuple(row.values()) for row in read_texts(str(tmp_path / "pairs.csv"))] == pairs
    with pytest.raises(InputError, match="translation"):
        write_pairs([], tmp_path / "none.csv")


@pytest.mark.allow_warnings  # a tiny model has no settings of generation saved
def test_a_translation_model_by_name(translator):
    translate = Translator(translator, device="cpu", max_length=8, num_beams=2)
    texts = ["the cat sat on the mat", "a dog"]
    found = translate(texts)
    assert len(found) == 2
    assert found == translate(texts)
    assert translate(texts[1:]) == found[1:]  # padding does not matter
    with pytest.raises(InputError, match="translation"):
        Translator("/nowhere")


def test_a_translation_model_is_opened_without_its_code_and_its_pickles(translator, tmp_path, monkeypatch):
    folder = shutil.copytree(translator, tmp_path / "model")
    marker = tmp_path / "code-ran"
    (folder / "own.py").write_text(f"open({str(marker)!r}, 'w').close()\nclass Own: pass\n")
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    settings |= {"tokenizer_class": "Own", "auto_map": {"AutoTokenizer": ["own.Own", None]}}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("asked at the terminal"))
    with contextlib.suppress(InputError):
        Translator(folder, device="cpu")
    assert not marker.exists()
    pickled = shutil.copytree(translator, tmp_path / "pickled")
    torch.save(load_file(pickled / "model.safetensors"), pickled / "pytorch_model.bin")
    (pickled / "model.safetensors").unlink()
    with pytest.raises(InputError, match="translation"):
        Translator(pickled, device="cpu")


TINY = [
    "--hidden_size", "16", "--num_layers", "1", "--max_length", "16", "--max_steps", "3",
    "--per_device_train_batch_size", "8", "--momentum_queue", "16", "--disable_tqdm", "true", "--bf16", "false",
]  # fmt: skip
TASK = ["--task", "TREC", "--task_epochs", "1", "--task_seeds", "2", "--label_samples", "40"]


def trec(folder):
    """TREC's files: a class and a question a line."""
    (folder / "TREC").mkdir(parents=True)
    lines = [f"{'NUM' if i % 2 else 'LOC'}:x {'how many cats' if i % 2 else 'where is a dog'} {i} ?" for i in range(60)]
    for name in ("train_5500.label", "TREC_10.label"):
        (folder / "TREC" / name).write_text("\n".join(lines) + "\n", encoding="latin-1")
    return folder


@pytest.mark.allow_warnings  # of transformers: the classifier is new
def test_both_stages_from_ready_pairs(tmp_path, capsys):
    pairs = [(f"a cat sat on mat {i}", f"on mat {i} sat a cat") for i in range(40)]
    write_pairs(pairs, tmp_path / "pairs.csv")
    data = trec(tmp_path / "data")
    found = load("run_cert").main([
        "--train_file", str(tmp_path / "pairs.csv"), *TASK, "--eval_data", str(data),
        "--output_dir", str(tmp_path / "out"), *TINY,
    ])  # fmt: skip
    assert set(found) >= {"TREC fine-tuned", "TREC CERT, then fine-tuned"}
    assert all(0 <= found[name] <= 1 for name in found if name.startswith("TREC"))
    assert "CERT, then fine-tuned" in capsys.readouterr().out
    model = transformers.AutoModel.from_pretrained(tmp_path / "out")
    assert model.config.contrastive["temperature"] == 0.07
    before, after = (
        load_file(folder / "model.safetensors") for folder in (tmp_path / "out" / "before", tmp_path / "out")
    )
    assert any(not torch.equal(before[name], after[name]) for name in after)


@pytest.mark.allow_warnings  # of transformers: the classifier is new
@pytest.mark.parametrize(
    ("kind", "flags"),
    [
        ("bfloat16", ""),
        ("float16", "--lora_r 2 --pooling mean"),
        ("float32", "--lora_r 2 --pooling cls"),
        ("float32", "--early_stopping_patience 1 --metric_for_best_model length --eval_steps 1 --save_steps 1"),
        ("float32", "--eval_on_start true --eval_strategy steps --eval_steps 2"),
    ],
)
def test_both_stages_of_every_base_and_training(kind, flags, bert_config, tokenizer, tmp_path, monkeypatch):
    base = save_both(BertForCL(bert_config, pooling="mean").to(getattr(torch, kind)), tokenizer, tmp_path / "base")
    write_pairs(list(itertools.pairwise(SENTENCES * 2)), tmp_path / "pairs.csv")
    script, trained = load("run_cert"), few_labels.Trainer.train
    monkeypatch.setattr(script, "sts_evaluator", lambda _: lambda model: {"length": 1.0})

    def whole(self, *args, **kwargs):
        if type(self) is few_labels.Trainer:
            assert {weight.dtype for weight in self.model.parameters()} == {torch.float32}
            assert all(weight.requires_grad for weight in self.model.parameters())
        return trained(self, *args, **kwargs)

    monkeypatch.setattr(few_labels.Trainer, "train", whole)
    found = script.main([
        "--train_file", str(tmp_path / "pairs.csv"), "--model_name_or_path", str(base), *TASK, "--eval_data",
        str(trec(tmp_path / "data")), "--output_dir", str(tmp_path / "out"), *TINY[4:], *flags.split(),
    ])  # fmt: skip
    assert (tmp_path / "out" / "task.json").is_file()
    assert found["TREC fine-tuned, sd"] >= 0
    if "lora" in flags:
        merged = AutoModelForCL.from_pretrained(tmp_path / "out", merge_adapter=True).bert.state_dict()
        parts = few_labels.labelled_parts("TREC", str(tmp_path / "data"), 40)
        before, after = (
            script.new_classifier(folder, parts).bert.state_dict()
            for folder in (tmp_path / "out" / "before", tmp_path / "out")
        )
        assert all(torch.equal(weight, merged[name]) for name, weight in after.items())
        assert any(not torch.equal(weight, merged[name]) for name, weight in before.items())


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--model_name_or_path", "static-minilm"], "static"),  # transformers has no classifier of this family
        (["--translate_there", "a", "--translate_back", "b", "--eval_data", "nowhere"], "no folder TREC"),
    ],
)
def test_a_task_that_cannot_be_is_refused_before_anything_long(flags, words, tmp_path, monkeypatch):
    write_pairs(list(itertools.pairwise(SENTENCES * 2)), tmp_path / "pairs.csv")
    script = load("run_cert")
    monkeypatch.setattr(script, "Translator", lambda *_: pytest.fail("translated first"))
    monkeypatch.setattr(script.scripts, "finish", lambda *_: pytest.fail("trained first"))
    data = ["--eval_data", str(trec(tmp_path / "data"))]
    given = ["--train_file", str(tmp_path / "pairs.csv"), *TASK, "--output_dir", str(tmp_path / "out")]
    with pytest.raises((InputError, ValueError), match=words):
        script.main([*given, *data, *tiny(*flags, flags=TINY)])


@pytest.mark.allow_warnings
def test_sentences_are_translated_first(translator, tmp_path):
    nouns = ("cat", "dog", "mat", "town", "book")  # words that the translator knows
    (tmp_path / "some.txt").write_text("\n".join(f"the {a} and the {b}" for a in nouns for b in nouns if a != b))
    found = load("run_cert").main([
        "--train_file", str(tmp_path / "some.txt"), "--translate_there", translator, "--translate_back", translator,
        "--output_dir", str(tmp_path / "out"), *TINY,
    ])  # fmt: skip
    assert not any("fine-tuned" in name for name in found)
    with open(tmp_path / "out" / "pairs.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["text", "back"]
    assert rows[1][0] == "the cat and the dog"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--translate_there", "some"], "give both"),
        (["--task", "STS12", "--eval_data", "hub"], "choose TREC"),
        (["--task", "TREC"], "CONTRASTIVE_ST_DATA to a folder"),
        (["--label_samples", "0"], "1 or more"),
    ],
)
def test_what_cannot_be_run(arguments, words, tmp_path, monkeypatch):
    write_pairs([("a", "b"), ("c", "d")], tmp_path / "pairs.csv")
    monkeypatch.setattr(few_labels.Task, "load", lambda *_: few_labels.Splits({}, {}))
    with pytest.raises(InputError, match=words):
        load("run_cert").main(
            ["--train_file", str(tmp_path / "pairs.csv"), *arguments, "--output_dir", str(tmp_path / "out")]
        )


def test_a_base_with_another_loss_is_trained_by_this_one(bert_config, tokenizer, tmp_path):
    save_both(BertForCL(bert_config, pooling="mean", loss="embedding_distillation"), tokenizer, tmp_path / "base")
    write_pairs(list(itertools.pairwise(SENTENCES)), tmp_path / "pairs.csv")
    load("run_cert").main([
        "--train_file", str(tmp_path / "pairs.csv"), "--model_name_or_path", str(tmp_path / "base"), "--output_dir",
        str(tmp_path / "out"), *TINY[TINY.index("--max_steps"):], "--per_device_train_batch_size", "6",
    ])  # fmt: skip
    settings = json.loads((tmp_path / "out" / "config.json").read_text())["contrastive"]
    assert (settings["loss"], settings["temperature"], settings["pooling"]) == ("info_nce", 0.07, "mean")
