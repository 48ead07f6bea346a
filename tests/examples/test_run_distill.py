"""The script of distillation: shuffled and ordered sentences, and students made of the teacher's layers."""

import numpy as np
import pytest
from scripts import load

from conftest import save_both
from contrastive_st.errors import InputError
from contrastive_st.models import BertForCL
from contrastive_st.models.encoder import SentenceEncoder

NOUNS = ["cat", "dog", "town", "book", "rain", "mat"]
SENTENCES = [f"the {a} and the {b} saw {n} old {c}s" for n, a in enumerate(NOUNS) for b in NOUNS for c in NOUNS]


@pytest.fixture
def files(bert_config, tokenizer, tmp_path):
    """Arguments that name a teacher, its cache and sentences."""
    save_both(BertForCL(bert_config, pooling="mean"), tokenizer, tmp_path / "teacher")
    (tmp_path / "some.txt").write_text("\n".join(SENTENCES))
    return [
        "--train_file", str(tmp_path / "some.txt"), "--teacher", str(tmp_path / "teacher"),
        "--cache", str(tmp_path / "cache"), "--disable_tqdm", "true", "--bf16", "false", "--learning_rate", "3e-3",
        "--per_device_train_batch_size", "36", "--hidden_size", "32", "--num_layers", "1",
    ]  # fmt: skip


@pytest.mark.slow
def test_relations_are_learned_shuffled_and_ordered(files, tmp_path, capsys):
    main = load("run_distill").main
    main([*files, "--num_train_epochs", "6", "--order_seconds", "2", "--output_dir", str(tmp_path / "out")])
    printed = capsys.readouterr().out
    assert "lower bound" in printed
    assert "M parameters" in printed
    kept = [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    assert len(kept) == 1
    encoders = (SentenceEncoder(tmp_path / name) for name in ("out", "teacher"))
    ours, theirs = (np.corrcoef(encoder.encode(SENTENCES)) for encoder in encoders)
    assert np.corrcoef(ours.ravel(), theirs.ravel())[0, 1] > 0.8
    stamp = kept[0].stat().st_mtime_ns
    main([*files, "--max_steps", "1", "--output_dir", str(tmp_path / "again")])
    assert kept[0].stat().st_mtime_ns == stamp  # the teacher was not asked again


@pytest.mark.parametrize("flags", [["--dropout", "0.1"], ["--lora_r", "2"], ["--hidden_size", "32"]])
def test_layers_are_those_of_the_teacher(flags, files, tmp_path):
    with pytest.raises(InputError, match="--teacher"):
        load("run_distill").main([*files[:-4], "--layers", "0", *flags, "--output_dir", str(tmp_path / "out")])


@pytest.mark.parametrize("flags", [["run_distill"], ["run_cert", "--translate_there", "a", "--translate_back", "b"]])
def test_strict_stops_at_a_blank_cell(flags, tmp_path):
    (tmp_path / "texts.csv").write_text("id,text\n1,a cat\n2,\n3,a dog\n")
    script, *flags = flags
    flags += ["--train_file", str(tmp_path / "texts.csv"), "--columns", "text", "--output_dir", str(tmp_path / "out")]
    with pytest.raises(InputError, match="row 3"):
        load(script).main([*flags, "--strict", "true"])
