"""examples/run_use.py: three tasks from files to one encoder."""

import pytest
from scripts import FEW, load

from conftest import SENTENCES
from contrastive_st import SentenceEncoder

PAIRS = [(f"{a} {i}", b) for i in range(3) for a in SENTENCES for b in SENTENCES[:3]]


def train(nli, tmp_path, *flags):
    (tmp_path / "corpus.txt").write_text("\n".join([*SENTENCES, "", *SENTENCES, "", *SENTENCES]))
    (tmp_path / "answers.tsv").write_text("\n".join(["input\tresponse", *(f"{a}\t{b}" for a, b in PAIRS)]))
    files = ["--corpus_file", str(tmp_path / "corpus.txt"), "--answer_file", str(tmp_path / "answers.tsv")]
    small = ["--hidden_size", "8", "--embedding_size", "6", *FEW, "--output_dir", str(tmp_path / "out")]
    return load("run_use").main([*files, "--nli_file", str(nli), *small, *flags])


@pytest.mark.parametrize("encoder", ["dan", "transformer"])
def test_three_files_train_one_encoder(nli, tmp_path, encoder):
    figures = train(nli, tmp_path, "--encoder", encoder, "--task_weights", "1", "1", "2")
    assert 0 <= figures["eval_nli_accuracy"] <= 1
    assert "eval_docs_mrr" not in figures  # no documentation was read
    found = SentenceEncoder.from_pretrained(tmp_path / "out")
    assert found.encode(SENTENCES).shape == (8, 8)
    assert found.model.config.similarity == "angular"


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--task_weights", "1", "2"), "task_weights has 2 numbers; give one each for neighbours, answers, nli"),
        (("--encoder", "lstm"), "dan"),
        (("--per_device_train_batch_size", "1"), "smaller than a window"),
    ],
)
def test_bad_input_is_one_clear_line(nli, tmp_path, flags, words):
    with pytest.raises(ValueError, match=words):
        train(nli, tmp_path, *flags)
