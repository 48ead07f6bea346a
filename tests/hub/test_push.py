"""What would be pushed is told without a word to the Hub; what is pulled or converted appears whole."""

import socket

import pytest

from contrastive_st import BertForCL
from contrastive_st.cli import main
from contrastive_st.hub import push as pushing


@pytest.fixture
def checkpoint(bert_config, tokenizer, tmp_path):
    BertForCL(bert_config).save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def content(folder):
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_dry_run_lists_files_and_sizes_shows_the_card_and_sends_nothing(checkpoint, capsys, monkeypatch):
    def connect(*args):
        raise AssertionError("a dry run talks to nobody")

    monkeypatch.setattr(socket.socket, "connect", connect)
    monkeypatch.setattr(pushing, "HfApi", connect)
    (checkpoint / "optimizer.pt").write_bytes(b"state")
    before = content(checkpoint)
    assert main(["push", str(checkpoint), "alice/model", "--dry-run", "--license", "mit"]) == 0
    printed = capsys.readouterr().out
    size = (checkpoint / "model.safetensors").stat().st_size
    assert f"{size:,}  model.safetensors\n" in printed
    assert "would go to alice/model; nothing is sent" in printed
    assert "license: mit" in printed
    assert 'SentenceEncoder.from_pretrained("alice/model")' in printed
    assert "optimizer.pt" not in printed
    assert content(checkpoint) == before


def test_a_dry_run_refuses_what_a_push_refuses(checkpoint, capsys):
    (checkpoint / "model.safetensors").unlink()
    assert main(["push", str(checkpoint), "alice/model", "--dry_run"]) == 2
    assert "holds no weights in safetensors" in capsys.readouterr().err
