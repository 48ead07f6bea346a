"""examples/run_infersent.py from labelled pairs to a checkpoint without its classifier."""

import json

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from scripts import FEW, load
from transformers import AutoModel

from conftest import SENTENCES
from contrastive_st import InferSentBiLSTM, InferSentConfig, LabelledPairCollator, SentenceEncoder
from contrastive_st.data import read_examples, tokenize, train_word_tokenizer
from label_accuracy import label_accuracy


def test_a_file_of_pairs_becomes_an_encoder(nli, tmp_path):
    small = ["--hidden_size", "4", "--embedding_size", "5", "--head_hidden", "6", *FEW]
    figures = load("run_infersent").main(["--train_file", str(nli), "--output_dir", str(tmp_path / "out"), *small])
    assert {"eval_dev_accuracy", "eval_test_accuracy"} <= set(figures)
    assert not hasattr(AutoModel.from_pretrained(tmp_path / "out"), "loss_head")
    assert SentenceEncoder.from_pretrained(tmp_path / "out").encode(SENTENCES).shape == (8, 8)
    assert json.loads((tmp_path / "out" / "results.json").read_text())["after"] == figures
    settings = json.loads((tmp_path / "out" / "training_metadata.json").read_text())["hyper_parameters"]
    assert (settings["optim"], settings["learning_rate"]) == ("sgd", 0.1)


def test_vectors_of_a_file_stay_and_the_head_may_be_linear(nli, tmp_path):
    words = sorted({word for sentence in SENTENCES for word in sentence.split()})
    vectors = np.random.default_rng(0).normal(size=(len(words), 5)).astype(np.float32)
    lines = (f"{word} {' '.join(map(str, row))}\n" for word, row in zip(words, vectors, strict=True))
    (tmp_path / "vectors.txt").write_text("".join(lines))
    flags = ["--word_vectors", str(tmp_path / "vectors.txt"), "--hidden_size", "4", "--head_hidden", "0"]
    load("run_infersent").main(["--train_file", str(nli), "--output_dir", str(tmp_path / "out"), *flags, *FEW])
    table = SentenceEncoder.from_pretrained(tmp_path / "out").model.get_input_embeddings().weight.detach().numpy()
    np.testing.assert_array_equal(table[-len(words) :], vectors)


def test_a_resumed_run_lowers_its_rate_as_an_uninterrupted_one(nli, tmp_path):
    """By the best dev accuracy so far, which a checkpoint holds: it does not rise in these epochs."""
    flags = ["--train_file", str(nli), "--hidden_size", "4", "--embedding_size", "5", "--head_hidden", "6", *FEW]
    flags += ["--max_steps", "-1", "--num_train_epochs", "4", "--save_strategy", "epoch", "--learning_rate", "1e-3"]
    main = load("run_infersent").main
    main([*flags, "--output_dir", str(tmp_path / "whole")])
    middle = sorted((tmp_path / "whole").glob("checkpoint-*"), key=lambda path: int(path.name[11:]))[1]
    main([*flags, "--output_dir", str(tmp_path / "again"), "--resume_from_checkpoint", str(middle)])
    ours, theirs = (load_file(tmp_path / name / "model.safetensors") for name in ("again", "whole"))
    assert all((ours[name] == theirs[name]).all() for name in theirs)


def test_accuracy_counts_the_pairs_whose_label_has_the_highest_score(nli):
    pairs, _ = read_examples(str(nli))
    tokenizer = train_word_tokenizer(SENTENCES, 50, 20)
    model = InferSentBiLSTM(InferSentConfig(len(tokenizer), 5, 4), head_hidden=6, num_labels=3).train()
    rows, right = tokenize(pairs, tokenizer, 20), 0
    with torch.no_grad():
        for row in rows:
            batch = LabelledPairCollator(tokenizer)([row])
            u, v = model.eval().embed(batch["input_ids"], batch["attention_mask"])[0]
            scores = model.loss_head.layers(torch.cat([u, v, (u - v).abs(), u * v]))
            right += int(scores.argmax()) == row["label"]
    model.train()
    assert label_accuracy(model, tokenizer, rows, batch_size=7) == pytest.approx(right / len(rows))
    assert 0 < right < len(rows)
    assert model.training
