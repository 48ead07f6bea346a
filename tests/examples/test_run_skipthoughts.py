"""examples/run_skipthoughts.py: a few sentences become an encoder without decoders, and its neighbours are printed."""

import pytest
from scripts import EXAMPLES, load

from conftest import SENTENCES
from contrastive_st import InputError, SentenceEncoder

TINY = ["--hidden_size", "8", "--embedding_size", "6", "--report_to", "none", "--disable_tqdm", "true"]
TINY += ["--logging_steps", "1", "--bf16", "false"]


def test_the_sentences_of_examples_train_with_the_default_batch(tmp_path, capsys):
    train = load("run_skipthoughts").main
    train(["--train_file", str(EXAMPLES / "data" / "sentences.txt"), "--output_dir", str(tmp_path / "out"), *TINY])
    encoder = SentenceEncoder.from_pretrained(tmp_path / "out")
    assert encoder.encode(SENTENCES).shape == (8, 8)
    assert not any("decoder" in name for name in encoder.model.state_dict())
    table = (tmp_path / "out" / "neighbors.md").read_text(encoding="utf-8")
    assert "The nearest of 60 distinct sentences" in table
    assert capsys.readouterr().out.count("\n  skipthoughts") == 4  # queries


def test_neighbours_of_given_queries(tmp_path):
    (tmp_path / "corpus.txt").write_text("\n".join(SENTENCES))
    flags = ["--queries", "a cat and a dog", "--k", "2", "--bidirectional", "true", "--num_train_epochs", "2"]
    load("run_skipthoughts").main(
        ["--train_file", str(tmp_path / "corpus.txt"), "--output_dir", str(tmp_path / "out"), *TINY, *flags]
    )
    table = (tmp_path / "out" / "neighbors.md").read_text(encoding="utf-8")
    assert "a cat and a dog" in table
    assert "The nearest of 8 distinct sentences" in table


def test_a_batch_without_neighbours_is_refused(tmp_path):
    (tmp_path / "corpus.txt").write_text("the cat sat on the mat\n")
    flags = ["--train_file", str(tmp_path / "corpus.txt"), "--output_dir", str(tmp_path / "out"), *TINY]
    with pytest.raises(InputError, match="sentences"):
        load("run_skipthoughts").main(flags)
    flags[1] = str(EXAMPLES / "data" / "sentences.txt")
    with pytest.raises(InputError, match="sentences"):
        load("run_skipthoughts").main([*flags, "--per_device_train_batch_size", "1"])
