"""The example under `accelerate launch`, one and two processes: real processes."""

import subprocess
from pathlib import Path

import pytest
from warm_python import python_with_package

from conftest import SENTENCES

EXAMPLE = Path(__file__).parents[2] / "examples" / "run_simcse.py"
pytestmark = pytest.mark.slow


def command(folder, *args, processes=1):
    launch = [python_with_package(), "-m", "accelerate.commands.launch"]
    if processes == 2:
        launch += ["--config_file", str(EXAMPLE.parent / "accelerate" / "two_cpu_processes.yaml")]
    else:
        launch += ["--cpu", "--num_processes", "1", "--num_machines", "1", "--num_cpu_threads_per_process", "1"]
        launch += ["--mixed_precision", "no", "--dynamo_backend", "no"]
    tiny = ["--num_layers", "1", "--hidden_size", "16", "--per_device_train_batch_size", "4", "--learning_rate", "1e-3"]
    tiny += ["--save_strategy", "steps"]
    output = ["--output_dir", str(folder / "out"), "--disable_tqdm", "true"]
    return [*launch, str(EXAMPLE), "--train_file", str(folder / "text.txt"), *tiny, *output, *args]


@pytest.fixture
def folder(tmp_path):
    lines = [f"{sentence} and {other}" for sentence in SENTENCES for other in SENTENCES]
    (tmp_path / "text.txt").write_text("\n".join(lines))
    return tmp_path


def run(*args, check=True, **kwargs):
    done = subprocess.run(args[0], capture_output=True, text=True, timeout=300, **kwargs)
    assert done.returncode == 0 or not check, done.stderr[-3000:]
    return done


def test_two_processes_train_and_contrast_with_each_other(folder):
    done = run(command(folder, "--max_steps", "20", "--logging_steps", "10", "--chunk_size", "3", processes=2))
    assert "candidates 8" in done.stdout  # twice the four rows of a process
    assert (folder / "out" / "model.safetensors").exists()


def test_the_cpu_flag_of_accelerate_works(folder):
    """It starts one process whatever the number (accelerate wants an MPI host file for more)."""
    launch = command(folder, "--max_steps", "20")
    launch[launch.index("--num_processes") + 1] = "2"
    run(launch)
    assert (folder / "out" / "model.safetensors").exists()


def test_bad_input_ends_in_one_line(folder):
    """By python with code 2; accelerate adds a traceback of its own, which --quiet leaves out, and ends with code 1."""
    (folder / "text.txt").unlink()
    launched = command(folder)
    launched.insert(launched.index("--cpu"), "--quiet")
    for line, code in ((launched, 1), ([python_with_package(), *launched[launched.index(str(EXAMPLE)) :]], 2)):
        done = run(line, check=False)
        assert done.returncode == code
        assert done.stderr.startswith("error: ")
        assert "there is no such file" in done.stderr
        assert done.stderr.count("\n") == 1
