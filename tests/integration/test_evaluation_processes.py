"""Two processes give the JSON of one, byte for byte apart from times; the command under `accelerate launch` too."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from evaluation_files import write_all
from warm_python import python_with_package

TWO = Path(__file__).parents[2] / "examples" / "accelerate" / "two_cpu_processes.yaml"
COMMAND = """
# one write, so that the lines of two processes do not mix
import os, sys
from contrastive_st.cli import main
code = main(sys.argv[1:])
sys.stderr.write(f"process {os.environ.get('RANK', 0)} {os.environ.get('WORLD_SIZE', 1)}\\n")
sys.exit(code)
"""


def evaluate(folder, processes, *arguments):
    script = folder / "evaluate.py"
    script.write_text(COMMAND)
    launch = ["-m", "accelerate.commands.launch", "--config_file", str(TWO)] if processes == 2 else []
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    command = [python_with_package(), *launch, str(script), "evaluate", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment, check=False)


def report(path):
    text = (path / "report.json").read_text()
    content = json.loads(text)
    assert list(content)[-1] == "seconds"
    return text[: text.index('"seconds"')]


@pytest.mark.slow
def test_two_processes_write_the_report_of_one(checkpoint, tmp_path):
    root = write_all(tmp_path / "data", size=400)
    common = ("--data", root, "--tasks", "STS12,STSB,space,CR,TREC,STSB-supervised", "--folds", "3")
    for processes in (1, 2):
        done = evaluate(tmp_path, processes, checkpoint, *common, "--output", tmp_path / f"out{processes}",
                        "--cache", tmp_path / f"cache{processes}")  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert done.stderr.count(f"process 0 {processes}") == 1
        assert done.stdout.count("STSB-supervised") == 1  # one process prints
    assert report(tmp_path / "out1") == report(tmp_path / "out2")
    again = evaluate(tmp_path, 2, checkpoint, *common, "--output", tmp_path / "cached", "--cache", tmp_path / "cache1")
    assert again.returncode == 0, again.stderr
    assert report(tmp_path / "cached") == report(tmp_path / "out1")


@pytest.mark.slow
def test_an_error_on_one_process_ends_all(checkpoint, tmp_path):
    root = write_all(tmp_path / "data")
    path = root / "STS/STSBenchmark/sts-dev.csv"
    path.write_text("a\tb\n")
    done = evaluate(tmp_path, 2, checkpoint, "--data", root, "--tasks", "STSB", "--cache", "none")
    assert done.returncode != 0
    assert "sts-dev.csv, line 1: 2 columns" in done.stderr
