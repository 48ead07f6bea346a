"""The example under `accelerate launch` of one process; `test_hub_training.py` launches two."""

import os
import subprocess
from pathlib import Path

import pytest
from scripts import EXAMPLES, TINY
from warm_python import put_back, python_with_package

SCRIPT = str(EXAMPLES / "run_simcse.py")
LAUNCH = ["-m", "accelerate.commands.launch", "--quiet", "--cpu", "--num_machines", "1"]
LAUNCH += ["--num_cpu_threads_per_process", "1", "--mixed_precision", "no", "--dynamo_backend", "no"]
pytestmark = pytest.mark.slow


def run(folder, *launch):
    command = [python_with_package(), *launch, SCRIPT, "--train_file", "text.txt", *TINY, "--output_dir", "out"]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=folder, check=False)


def test_the_cpu_flag_of_accelerate_works(text_file, tmp_path):
    """It starts one process whatever the number (accelerate wants an MPI host file for more)."""
    done = run(tmp_path, *LAUNCH, "--num_processes", "2")
    assert done.returncode == 0, done.stderr[-3000:]
    assert Path(tmp_path, "out", "model.safetensors").exists()


@pytest.mark.parametrize(("launch", "code"), [((*LAUNCH, "--num_processes", "1"), 1), ((), 2)])
def test_bad_input_ends_in_one_line(launch, code, tmp_path):
    """By python with code 2; accelerate adds a traceback of its own, which --quiet leaves out, and ends with code 1."""
    done = run(tmp_path, *launch)
    assert done.returncode == code
    assert done.stderr.startswith("error: ")
    assert "there is no such file" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="processes cannot be forked")
def test_processes_start_warm_after_tests_that_import_more(monkeypatch):
    """What kreuzberg, peft and a page of gradio set; if it stayed, each process of a session would import all anew."""
    command = [python_with_package(), "-c", "import sys; print('peft' in sys.modules)"]
    began = dict(os.environ)
    monkeypatch.setenv("LD_LIBRARY_PATH", "here")
    monkeypatch.delenv("HF_HUB_OFFLINE")
    assert subprocess.check_output(command, text=True) == "False\n"
    put_back()
    assert dict(os.environ) == began
    assert subprocess.check_output(command, text=True) == "True\n"
