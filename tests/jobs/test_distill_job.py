"""The jobs behind the examples of distillation and Skip-Thoughts, on a few sentences."""

import json

import numpy as np
import pytest
from contrastive_st.jobs import distill
from contrastive_st.jobs import skipthoughts_job as skipthoughts
from transformers import AutoModel

from contrastive_st.errors import InputError
from contrastive_st.models import BertForCL, SkipThoughts
from contrastive_st.models.encoder import SentenceEncoder

NOUNS = ["cat", "dog", "town", "book", "rain", "mat"]
SENTENCES = [f"the {a} and the {b} saw {n} old {c}s" for n, a in enumerate(NOUNS) for b in NOUNS for c in NOUNS]
COMMON = ["--disable_tqdm", "true", "--bf16", "false", "--logging_steps", "5"]


@pytest.fixture
def teacher(bert_config, tokenizer, tmp_path):
    BertForCL(bert_config, pooling="mean").save_pretrained(tmp_path / "teacher")
    tokenizer.save_pretrained(tmp_path / "teacher")
    return str(tmp_path / "teacher")


@pytest.mark.slow
def test_distillation_shuffled_and_ordered(teacher, tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("CONTRASTIVE_ST_DATA", raising=False)
    (tmp_path / "some.txt").write_text("\n".join(SENTENCES))
    arguments = [
        "--train_file", str(tmp_path / "some.txt"), "--teacher", teacher, "--cache", str(tmp_path / "cache"),
        "--hidden_size", "32", "--num_layers", "1", "--max_length", "16", "--per_device_train_batch_size", "36",
        "--num_train_epochs", "6", "--learning_rate", "3e-3", "--order_seconds", "2", *COMMON,
    ]  # fmt: skip
    table = distill.main([*arguments, "--output_dir", str(tmp_path / "out")])
    assert set(table) == {"teacher", "untrained", "shuffled", "ordered"}
    assert table["shuffled"]["M parameters"] == table["ordered"]["M parameters"]
    assert "lower bound" in capsys.readouterr().out
    kept = list((tmp_path / "cache").rglob("*.npy"))
    assert [np.load(path).shape for path in kept] == [(216, 16)]
    for order in ("shuffled", "ordered"):
        student = SentenceEncoder(tmp_path / "out" / order)
        ours, theirs = (np.corrcoef(e.encode(SENTENCES)) for e in (student, SentenceEncoder(teacher)))
        assert np.corrcoef(ours.ravel(), theirs.ravel())[0, 1] > 0.8
    stamp = kept[0].stat().st_mtime_ns
    distill.main([*arguments, "--output_dir", str(tmp_path / "again"), "--orders", "shuffled", "--max_steps", "1"])
    assert kept[0].stat().st_mtime_ns == stamp  # the teacher was not asked again


@pytest.mark.slow
def test_skip_thoughts_beside_quick_thoughts(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("CONTRASTIVE_ST_DATA", raising=False)
    (tmp_path / "story.txt").write_text("\n".join(SENTENCES[:108]) + "\n\n" + "\n".join(SENTENCES[108:]))
    table = skipthoughts.main([
        "--train_file", str(tmp_path / "story.txt"), "--hidden_size", "16", "--embedding_size", "8", "--k", "2",
        "--per_device_train_batch_size", "27", "--max_steps", "6", "--output_dir", str(tmp_path / "out"), *COMMON,
        "--queries", "the cat and the dog",
    ])  # fmt: skip
    assert list(table) == ["skipthoughts", "quickthoughts"]
    written = (tmp_path / "out" / "neighbors.md").read_text()
    assert "skipthoughts" in written
    assert "quickthoughts" in written
    assert "the cat and the dog" in capsys.readouterr().out
    model = AutoModel.from_pretrained(tmp_path / "out" / "skipthoughts")
    assert type(model) is SkipThoughts
    assert not hasattr(model, "loss_head")
    assert json.loads((tmp_path / "out" / "results.json").read_text()).keys() == table.keys()


@pytest.mark.parametrize(
    ("job", "arguments", "words"),
    [
        (distill, ["--orders", "sorted"], "one or both of shuffled, ordered"),
        (skipthoughts, ["--models", "slowthoughts"], "one or both of skipthoughts, quickthoughts"),
    ],
)
def test_what_there_is_not(job, arguments, words, tmp_path):
    with pytest.raises(InputError, match=words):
        job.main([*arguments, "--output_dir", str(tmp_path / "out")])
