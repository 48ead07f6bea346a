"""Faults of the machine and of whoever runs a command: each has its one line, and nothing bad is left behind."""

import logging
import os
import re
import resource
import shutil
import sys
import time
from pathlib import Path

import pytest
from transformers import TrainerCallback

sys.path.insert(0, str(Path(__file__).parent))

import mutant_run
import mutants

from contrastive_st import ContrastiveTrainer
from contrastive_st.cli import main
from contrastive_st.errors import InputError
from contrastive_st.files.download import _HTTPError, hub_errors
from contrastive_st.files.writing import locked, only_writer
from contrastive_st.hub.push import dry_run
from contrastive_st.training.checkpoints import check_checkpoint, newest_checkpoint

TEACHER = mutants.MADE / "bert"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return mutant_run.trained(tmp_path_factory.mktemp("run"))


def in_child(job):
    """What a job returns in a forked child, as text."""
    ours, theirs = os.pipe()
    if not (pid := os.fork()):
        try:
            told = str(job())
        except BaseException as error:
            told = f"{type(error).__name__}: {error}"
        os.write(theirs, told.encode()[:4000])
        os._exit(0)
    os.close(theirs)
    told = os.read(ours, 4096).decode()
    os.waitpid(pid, 0)
    return told


@pytest.mark.allow_warnings
@pytest.mark.skipif(sys.platform != "linux", reason="limits of a child")
@pytest.mark.parametrize("most", [200, 2_000, 40_000])
def test_a_full_disk(most, tmp_path):
    """A limit on the size of files, as a full disk: in the states, in the weights, in the smallest file."""

    def job():
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        return mutant_run.train(tmp_path / "out", 2)

    told = in_child(job)
    assert told.startswith("InputError: "), told
    assert "cannot be written" in told
    assert len(told.splitlines()) == 1
    assert newest_checkpoint(tmp_path / "out") is None


@pytest.mark.allow_warnings
def test_ctrl_c_says_how_to_go_on(run, tmp_path, monkeypatch, caplog):
    class Interrupt(TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):
            if state.global_step == 3:
                raise KeyboardInterrupt

    begun = ContrastiveTrainer.train
    monkeypatch.setattr(
        ContrastiveTrainer, "train", lambda self, *a, **k: (self.add_callback(Interrupt()), begun(self, *a, **k))[1]
    )
    with pytest.raises(KeyboardInterrupt) as error:
        mutant_run.train(tmp_path / "out", 5)
    assert str(tmp_path / "out" / "checkpoint-2") in str(error.value)
    with caplog.at_level(logging.INFO):
        monkeypatch.undo()
        mutant_run.train(tmp_path / "out", 5, resume=True)
    assert [r.message for r in caplog.records if f"{tmp_path / 'out' / 'checkpoint-2'}, step 2 of 5" in r.message]


def test_a_foreign_folder_pushes_no_code(tmp_path):
    for kind, own in (("bert", []), ("static", ["static.py"])):
        folder = tmp_path / kind
        shutil.copytree(mutants.MADE / kind, folder)
        (folder / "evil.py").write_text("raise SystemExit")
        assert [name for name in dry_run(folder, "user/name") if name.endswith(".py")] == own


def test_no_network_is_not_a_fault_of_the_name():
    with pytest.raises(InputError) as told, hub_errors("user/name"):
        raise _HTTPError("[Errno -2] Name or service not known")
    assert "cannot be reached" in str(told.value)
    assert "HTTPS_PROXY" in str(told.value)


def distill(folder, texts, *options):
    (folder / "texts.txt").write_text("\n".join(texts))
    files = ["--train_file", str(folder / "texts.txt"), "-o", str(folder / "out")]
    return main(["distill", str(TEACHER), *files, "--dim", "4", "--steps", "2", *options])


@pytest.mark.allow_warnings
@pytest.mark.parametrize(("texts", "words"), [
    (["the same words"] * 64, "1 distinct text"), (["\N{SNOWMAN}" * n for n in range(1, 65)], "no text of"),
])  # fmt: skip
def test_texts_that_teach_nothing(texts, words, tmp_path, capsys):
    assert distill(tmp_path, texts) == 2
    assert words in capsys.readouterr().err.splitlines()[-1]
    assert not (tmp_path / "out").exists()


@pytest.fixture
def held(tmp_path):
    """A new folder `out`, into which another process writes."""
    if not (pid := os.fork()):
        with only_writer(tmp_path / "out"):
            (tmp_path / "held").touch()
            time.sleep(60)
    while not (tmp_path / "held").exists():
        time.sleep(0.01)
    yield tmp_path
    os.kill(pid, 9)
    os.waitpid(pid, 0)


COMMANDS = {
    "soup": ["soup", TEACHER, TEACHER, "-o"],
    "merge": ["merge", mutants.MADE / "lora", "-o"],
    "convert": ["convert", TEACHER, "--to", "backbone"],
    "export": ["export", TEACHER, "--format", "onnx", "-o"],
    "classify": ["classify", "--train_file", "examples.csv", "--tune", "--model", TEACHER, "-o"],
}


@pytest.mark.skipif(sys.platform == "win32", reason="locks of POSIX")
def test_two_into_one_folder(held, capsys, monkeypatch):
    """The second of two is told before it computes anything; the lock opens to its own account alone."""
    monkeypatch.chdir(held)
    Path("examples.csv").write_text("text,label\n" + "".join(f"text {i},{i % 2}\n" for i in range(8)))
    assert (held / ".out.lock").stat().st_mode & 0o777 == 0o600
    told = f"another process writes into {held / 'out'}"
    for name, command in COMMANDS.items():
        assert main([*map(str, command), str(held / "out")]) == 2, name
        assert told in capsys.readouterr().err, name
    assert distill(held, [f"text {i}" for i in range(9)]) == 2
    assert told in capsys.readouterr().err
    assert not (held / "out").exists()


def test_a_lock_that_was_removed_while_it_was_opened_is_no_lock(tmp_path, monkeypatch):
    """The one before ends between the second's opening and locking of the file: the second locks a new one."""
    path, opened = tmp_path / ".lock", os.open

    def open_and_lose(name, *options):
        file = opened(name, *options)
        if monkeypatch.undo() is None:
            path.unlink()
        return file

    monkeypatch.setattr(os, "open", open_and_lose)
    with locked(path, "held"):
        assert path.exists()
    assert not path.exists()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes")
def test_a_random_state_that_is_a_pipe(run, tmp_path):
    shutil.copytree(run, tmp_path / "run")
    path = newest_checkpoint(tmp_path / "run") / "rng_state.pth"
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(InputError, match="rng_state"):
        check_checkpoint(path.parent)


def promises(path):
    """Each row of the tables `promise | test` of a file: its tests, as files with functions."""
    rows, within = [], False
    for line in path.read_text().splitlines():
        within = line.startswith("| promise | test") or (within and line.startswith("|"))
        if not within or line.startswith(("| promise", "|---")):
            continue
        cell, named = line.rsplit(" | ", 1)[1], []
        file = rows[-1][-1][0] if rows and cell.startswith("the same") else None
        for word in re.findall(r"`([^`]+)`", cell):
            file = word if word.endswith(".py") else file
            if not word.endswith(".py"):
                named.append((file, word))
        rows.append(named)
    return rows


@pytest.mark.parametrize(("name", "least"), [("SECURITY.md", 10), ("docs/production.md", 25)])
def test_every_promise_has_its_test(name, least):
    """Each row of the tables names a test that exists."""
    root = mutants.MADE.parents[2]
    rows = promises(root / name)
    assert len(rows) >= least
    for row in rows:
        assert row, "a promise without a test"
        for file, function in row:
            assert f"def {function}(" in (root / file).read_text(), (file, function)
