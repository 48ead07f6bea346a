"""The command line, on a tiny checkpoint."""

import io
import resource
import sys

import numpy as np
import pytest
from datasets import Dataset

from conftest import SENTENCES
from contrastive_st import BertForCL, SentenceEncoder
from contrastive_st.cli import main


@pytest.fixture
def checkpoint(bert_config, tokenizer, tmp_path):
    BertForCL(bert_config).save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    return str(tmp_path / "model")


@pytest.fixture
def stdin(monkeypatch):
    def give(content):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))

    return give


def test_encode_writes_what_the_encoder_gives(checkpoint, tmp_path, stdin):
    expected = SentenceEncoder.from_pretrained(checkpoint).encode(SENTENCES, normalize=True)
    (tmp_path / "t.txt").write_text("\n".join(SENTENCES))
    assert (
        main(["encode", str(tmp_path / "t.txt"), "-m", checkpoint, "-o", str(tmp_path / "a.npy"), "--normalize"]) == 0
    )
    np.testing.assert_allclose(np.load(tmp_path / "a.npy"), expected, atol=1e-6)
    stdin("\n".join(SENTENCES).encode())
    assert main(["encode", "-m", checkpoint, "-o", str(tmp_path / "a.parquet"), "--normalize"]) == 0
    rows = Dataset.from_parquet(str(tmp_path / "a.parquet"))
    assert rows["text"][:] == SENTENCES
    np.testing.assert_allclose(np.array(rows["embedding"][:]), expected, atol=1e-6)


def test_similarity_of_two_and_of_many(checkpoint, capsys, stdin):
    assert main(["similarity", "a cat", "a cat", "-m", checkpoint]) == 0
    assert capsys.readouterr().out == "1.0000\n"
    stdin(b"a dog\na cat\n")
    assert main(["similarity", "a cat", "-m", checkpoint]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "1.0000\ta cat"


def test_doctor_says_what_a_bug_report_needs(capsys, monkeypatch):
    monkeypatch.setenv("CONTRASTIVE_ST_DATA", "/nowhere")
    assert main(["doctor"]) == 0
    printed = capsys.readouterr().out
    assert all(word in printed for word in ("torch", "transformers", "precision", "threads", "/nowhere", "not found"))


@pytest.mark.parametrize(
    ("args", "given", "words"),
    [
        (["encode", "-o", "out.npy"], b"", "stdin is empty"),
        (["encode", "-o", "out.npy"], b"ok\n\xff\n", "line 2"),
        (["encode", "-o", "out.csv"], b"a\n", ".parquet"),
        (["encode", "-o", "model"], b"a\n", ".npy"),
        (["encode", "-o", "no/such/out.npy"], b"a\n", "does not exist"),
        (["encode", "missing.txt", "-o", "out.npy"], b"", "missing.txt"),
        (["similarity", "a"], b"", "nothing to compare"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(checkpoint, args, given, words, tmp_path, monkeypatch, capsys, stdin):
    monkeypatch.chdir(tmp_path)
    stdin(given)
    assert main([*args, "-m", checkpoint]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert words in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out.npy").exists()


def test_an_existing_file_is_kept_unless_told_otherwise(checkpoint, tmp_path, stdin, capsys):
    (tmp_path / "a.npy").write_bytes(b"mine")
    stdin(b"a cat\n")
    assert main(["encode", "-m", checkpoint, "-o", str(tmp_path / "a.npy")]) == 2
    assert (tmp_path / "a.npy").read_bytes() == b"mine"
    stdin(b"a cat\n")
    assert main(["encode", "-m", checkpoint, "-o", str(tmp_path / "a.npy"), "--overwrite"]) == 0


@pytest.mark.parametrize("name", ["a.npy", "a.parquet"])
def test_a_full_disk_leaves_no_truncated_file(checkpoint, tmp_path, stdin, capsys, name):
    stdin(b"a cat\n" * 2000)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        assert main(["encode", "-m", checkpoint, "-o", str(tmp_path / name)]) == 2
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert capsys.readouterr().err.startswith(f"error: {tmp_path / name} cannot be written: ")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_model_that_is_not_there(capsys):
    assert main(["similarity", "a", "b", "-m", "/no/such/model"]) == 2
    assert "/no/such/model" in capsys.readouterr().err


def test_train_is_the_recipe(tmp_path, capsys):
    assert main(["train", "--train_file", str(tmp_path / "none.txt"), "--output_dir", str(tmp_path / "out")]) == 2
    assert "no such file" in capsys.readouterr().err


def test_compare_takes_the_options_of_its_job(tmp_path, capsys):
    assert main(["compare", "--only", "nothing", "--output_dir", str(tmp_path)]) == 2
    assert "error: unknown method nothing; choose from next, " in capsys.readouterr().err


def test_an_argument_that_no_job_knows(capsys):
    assert main(["train", "--sede", "7"]) == 2
    assert capsys.readouterr().err == "error: unknown argument --sede; --help lists those there are\n"
