"""What is written appears whole or not at all."""

import contextlib
import os
import stat
from pathlib import Path

import numpy as np
import pytest
import torch
from refusals import refusal
from safetensors.torch import save_file
from small_files import full_disk

from contrastive_st import InputError
from contrastive_st.files import writing
from contrastive_st.files.writing import atomic_write, check_target, only_writer, replace_model, write_files, write_json


def content(folder):
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_file_and_a_folder_take_their_names_at_the_end(tmp_path):
    with atomic_write(tmp_path / "a.npy") as file, atomic_write(tmp_path / "model") as folder:
        assert (file.name, folder.name) == ("a.npy", "model")
        file.write_bytes(b"1")
        folder.mkdir()
        (folder / "b").write_bytes(b"2")
        assert not (tmp_path / "a.npy").exists()
        assert not (tmp_path / "model").exists()
    assert content(tmp_path) == {"a.npy": b"1", "model/b": b"2"}
    assert len(list(tmp_path.iterdir())) == 2


def test_what_is_there_is_replaced_only_when_told(tmp_path):
    (tmp_path / "a").write_bytes(b"old")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "old").write_bytes(b"old")
    (tmp_path / "link").symlink_to("nowhere")
    for name in ("a", "model", "link"):
        with pytest.raises(InputError, match="--overwrite"):
            check_target(tmp_path / name)
    os.mkfifo(tmp_path / "pipe")  # a rename would replace it, and /dev/null too
    with pytest.raises(InputError, match="a device or a pipe"), atomic_write(tmp_path / "pipe", overwrite=True):
        pass
    (tmp_path / "pipe").unlink()
    with atomic_write(tmp_path / "a", overwrite=True) as file, atomic_write(tmp_path / "model", True) as folder:
        file.write_bytes(b"new")
        folder.mkdir()
        (folder / "new").write_bytes(b"new")
    assert content(tmp_path) == {"a": b"new", "model/new": b"new"}
    with pytest.raises(InputError, match="directory"), atomic_write(tmp_path / "model", overwrite=True) as file:
        file.write_bytes(b"a file in the place of a folder")
    assert content(tmp_path) == {"a": b"new", "model/new": b"new"}


def test_a_link_stays_one_and_what_it_leads_to_is_written(tmp_path):
    (tmp_path / "disk" / "empty").mkdir(parents=True)
    (tmp_path / "disk" / "a").write_bytes(b"old")
    for name in ("a", "empty"):
        (tmp_path / name).symlink_to(tmp_path / "disk" / name)
    with only_writer(tmp_path / "empty"), atomic_write(tmp_path / "empty") as folder:
        folder.mkdir()
        (folder / "new").write_bytes(b"new")
    with atomic_write(tmp_path / "a", overwrite=True) as file:
        file.write_bytes(b"new")
    assert content(tmp_path / "disk") == {"a": b"new", "empty/new": b"new"}
    assert (tmp_path / "a").is_symlink()
    assert (tmp_path / "empty").is_symlink()


def test_a_link_in_a_folder_is_replaced(tmp_path):
    """The Hub's cache has links to files that other revisions share."""
    (tmp_path / "blob").write_text("of the Hub")
    for name in ("config.json", "README.md"):
        (tmp_path / name).symlink_to(tmp_path / "blob")
    write_json(tmp_path / "config.json", {})
    write_files(tmp_path, {"README.md": b"a card"})
    assert (tmp_path / "blob").read_text() == "of the Hub"
    assert (tmp_path / "config.json").read_text() == "{}\n"
    assert (tmp_path / "README.md").read_text() == "a card"


def test_a_failure_leaves_what_was_there(tmp_path, monkeypatch):
    (tmp_path / "a").write_bytes(b"old")

    def fill():
        with atomic_write(tmp_path / "a", overwrite=True) as file:
            file.write_bytes(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fill()
    assert content(tmp_path) == {"a": b"old"}

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with refusal(r"README\.md"):
        write_files(tmp_path, {"a": b"new", "README.md": b"new"})
    assert content(tmp_path) == {"a": b"old"}
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_disk_that_is_full(tmp_path):
    with full_disk(), refusal(r"a\.safetensors"), atomic_write(tmp_path / "a.safetensors") as file:
        save_file({"a": torch.ones(100_000)}, file)
    with full_disk(), refusal(r"a\.npy"), atomic_write(tmp_path / "a.npy") as file:
        np.save(file, np.ones(100_000))
    assert list(tmp_path.iterdir()) == []


def test_targets_that_can_hold_nothing(tmp_path, monkeypatch):
    for path, words in ((tmp_path / "no" / "a", "does not exist"), (tmp_path / ("a" * 300), "name too long")):
        with refusal(f"(?i){words}"):
            check_target(path)
    monkeypatch.setattr(writing.os, "access", lambda path, mode: False)
    with pytest.raises(InputError, match="read-only"):
        check_target(tmp_path / "a")


def test_files_have_the_mode_of_the_umask(tmp_path):
    before = os.umask(0o022)
    try:
        with atomic_write(tmp_path / "model") as folder:
            folder.mkdir()
            save_file({"a": torch.ones(2)}, folder / "model.safetensors")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "model" / "model.safetensors").stat().st_mode) == 0o644


def test_a_model_is_replaced_at_once_wherever_it_is_killed(tmp_path, monkeypatch):
    """After every number of renames and removals: the former model, none that opens, or the new one."""
    names = ("1_Pooling/config.json", "config.json", "model.safetensors", "modules.json", "tokenizer.json")
    former, new = ({name: f"{version} {name}".encode() for name in names} for version in ("former", "new"))
    beside = {"checkpoint-3/config.json": b"3", "results.json": b"{}", "model-00001-of-00002.safetensors": b"stale"}
    seen = []

    class Killed(BaseException):
        pass

    def counted(function, left):
        def call(*arguments, **options):
            left[0] -= 1
            if left[0] < 0:
                raise Killed
            return function(*arguments, **options)

        return call

    for allowed in range(20):
        folder = tmp_path / str(allowed)
        for name, data in {**former, **beside}.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)
        left = [allowed]
        with monkeypatch.context() as patch, contextlib.suppress(Killed), replace_model(folder) as temporary:
            for name, data in new.items():
                (temporary / name).parent.mkdir(exist_ok=True)
                (temporary / name).write_bytes(data)
            patch.setattr(os, "replace", counted(os.replace, left))
            patch.setattr(Path, "unlink", counted(Path.unlink, left))
        there = content(folder)
        model = {name: data for name, data in there.items() if name in names}
        seen.append("new" if model == new else "former" if model == former else "none")
        assert seen[-1] != "none" or "config.json" not in there
        assert all(there[name] == data for name, data in beside.items() if "stale" not in str(data))
        assert seen[-1] != "new" or "model-00001-of-00002.safetensors" not in there
    assert list(dict.fromkeys(seen)) == ["former", "none", "new"]


def test_a_model_that_cannot_be_written_leaves_the_former_one(tmp_path):
    (tmp_path / "config.json").write_bytes(b"former")

    def full():
        with replace_model(tmp_path) as temporary:
            (temporary / "config.json").write_bytes(b"new")
            raise OSError(28, "No space left on device")

    with pytest.raises(InputError, match="written"):
        full()
    assert content(tmp_path) == {"config.json": b"former"}


def test_a_model_stays_where_nothing_takes_its_place(tmp_path):
    """As where the weights are sharded, and only checkpoints have them."""
    (tmp_path / "config.json").write_text("{}")
    with replace_model(tmp_path):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]


def test_records_stay_while_the_weights_of_all_modules_do(tmp_path):
    seen = []
    for weights in (b"former", b"former", b"new"):
        with replace_model(tmp_path) as temporary:
            (temporary / "2_Dense").mkdir()
            (temporary / "2_Dense" / "model.safetensors").write_bytes(weights)
        seen.append(sorted(path.name for path in tmp_path.iterdir() if path.name != "2_Dense"))
        (tmp_path / "evaluation").mkdir(exist_ok=True)
        (tmp_path / "training_curve.png").write_bytes(b"of these weights")
    assert seen == [[], ["evaluation", "training_curve.png"], ["evaluation.old", "training_curve.png.old"]]
