"""Two processes give the JSON of one, byte for byte apart from times; the command under `accelerate launch` too."""

import json
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


@pytest.mark.slow
def test_two_processes_write_the_report_of_one(checkpoint, tmp_path):
    root, script, reports = write_all(tmp_path / "data", size=400), tmp_path / "evaluate.py", set()
    script.write_text(COMMAND)
    launch = ["-m", "accelerate.commands.launch", "--config_file", TWO]
    tasks = [checkpoint, "--data", root, "--tasks", "STS12,STSB,space,CR,TREC,STSB-supervised", "--folds", "3"]
    for processes, output, cache in ((1, "one", "cache1"), (2, "two", "cache2"), (2, "again", "cache1")):
        command = [python_with_package(), *(launch if processes == 2 else []), script, "evaluate", *tasks]
        command += ["--output", tmp_path / output, "--cache", tmp_path / cache]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stderr.count(f"process 0 {processes}") == 1
        assert done.stdout.count("STSB-supervised") == 1  # one process prints
        text = (tmp_path / output / "report.json").read_text()
        assert list(json.loads(text))[-1] == "seconds"
        reports.add(text[: text.index('"seconds"')])
    assert len(reports) == 1
