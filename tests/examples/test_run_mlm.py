"""examples/run_mlm.py: what a run that is stopped leaves, and how it goes on."""

import pytest
from safetensors.numpy import load_file
from scripts import TINY, load

from conftest import SENTENCES


@pytest.mark.allow_warnings  # that it was stopped
def test_stopped_by_sigterm_it_saves_a_checkpoint_and_goes_on_as_if_nothing_had_been(tmp_path, stop_at_step):
    (tmp_path / "texts.txt").write_text("\n".join(f"{a} and {b}" for a in SENTENCES for b in SENTENCES))
    flags = ["--train_file", str(tmp_path / "texts.txt"), "--block_size", "16", *TINY, "--max_steps", "9"]
    main, stopped, whole = load("run_mlm").main, tmp_path / "stopped", tmp_path / "whole"
    stop_at_step(4)  # in the middle of an epoch: the blocks are drawn and masked ahead of the steps
    main([*flags, "--output_dir", str(stopped), "--dataloader_num_workers", "1"])
    assert [path.name for path in stopped.iterdir() if not path.name.startswith(".")] == ["checkpoint-4"]
    stop_at_step(None)
    main([*flags, "--output_dir", str(stopped), "--resume_from_checkpoint", "true"])
    main([*flags, "--output_dir", str(whole)])
    ours, theirs = (load_file(folder / "model.safetensors") for folder in (stopped, whole))
    assert ours.keys() == theirs.keys()
    assert all((ours[name] == theirs[name]).all() for name in ours)
