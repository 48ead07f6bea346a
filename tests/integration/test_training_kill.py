"""kill -9 in the middle of checkpoint saves: every kill resumes, and the end is that of a run that was never killed.

`CONTRASTIVE_ST_KILLS=100 pytest -s tests/integration/test_training_kill.py` kills a hundred times instead of three, and
prints each kill.
"""

import os
import subprocess
from pathlib import Path

import pytest
from warm_python import python_with_package

WORKER = Path(__file__).parents[1] / "helpers" / "kill_worker.py"
KILLS = os.environ.get("CONTRASTIVE_ST_KILLS", "3")
#: By hand, with more kills
MORE = [(case, 1) for case in ("lora", "quickthoughts", "distill") if int(KILLS) > 3]


@pytest.mark.slow
@pytest.mark.parametrize(("case", "processes"), [("plain", 1), ("cached", 1), ("plain", 2), *MORE])
def test_killed_while_it_saves(case, processes, tmp_path):
    path = os.pathsep.join([str(WORKER.parent), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path, "HF_HUB_OFFLINE": "1"}
    command = [python_with_package(), str(WORKER), str(tmp_path), case, str(processes), KILLS]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120 + 20 * int(KILLS), env=environment, check=False
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]
    assert f"{KILLS} kills of {case} in {processes} processes" in done.stdout
