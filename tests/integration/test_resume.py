"""Killed by SIGKILL in mid-epoch and resumed: the weights of the run that was never killed, bit for bit."""

import os
import subprocess
from pathlib import Path

import pytest
import resume_worker
import torch
from warm_python import python_with_package

WORKER = Path(resume_worker.__file__)
CASES = {  # orders that `tests/meetings` does not have
    1: ["corpus-runs-workers", "neighbors-workers", "mixture-stream-accumulated"],
    2: ["corpus-mixed", "mixture-stream-cached-workers"],
}  # fmt: skip
pytestmark = pytest.mark.slow  # the processes run once


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return {processes: run(processes, tmp_path_factory.mktemp(f"resume{processes}")) for processes in CASES}


def run(processes, folder):
    path = os.pathsep.join([str(WORKER.parent.parent), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path, "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [python_with_package(), str(WORKER), str(folder), str(processes), *CASES[processes]],
        capture_output=True, text=True, timeout=600, env=environment, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


@pytest.mark.parametrize(("processes", "case"), [(number, case) for number in CASES for case in CASES[number]])
def test_killed_and_resumed_is_never_killed_bit_for_bit(runs, processes, case):
    folder = runs[processes]
    whole = torch.load(folder / f"{case}-whole-0.pt")
    assert (folder / case / "killed" / "checkpoint-15").is_dir()
    for rank in range(processes):
        resumed = torch.load(folder / f"{case}-resumed-{rank}.pt")
        assert whole.keys() == resumed.keys()
        for name, weight in whole.items():
            assert torch.equal(weight, resumed[name]), (rank, name)


@pytest.mark.parametrize("processes", CASES)
def test_each_way_of_reading_has_an_order_of_its_own(runs, processes):
    """Else the cases above would be one case."""
    cases = [case for case in CASES[processes] if not case.startswith("neighbors")]  # no BERT
    weights = [torch.load(runs[processes] / f"{case}-whole-0.pt")["bert.pooler.dense.weight"] for case in cases]
    for i, weight in enumerate(weights):
        assert not any(torch.equal(weight, other) for other in weights[:i]), cases[i]
