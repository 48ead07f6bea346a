"""kill -9 in the middle of saves: every kill resumes, and the end is that of a run that was never killed.

`CONTRASTIVE_ST_KILLS=25 pytest -s tests/integration/test_training_kill.py` kills so often instead of twice.
"""

import os
import subprocess
from pathlib import Path

import kill_worker
import pytest
from warm_python import python_with_package

KILLS = os.environ.get("CONTRASTIVE_ST_KILLS", "2")
pytestmark = pytest.mark.slow


def killed(folder, processes, moment, chunk_size):
    """The last line of the worker."""
    worker = Path(kill_worker.__file__)
    path = os.pathsep.join([str(worker.parent), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path, "HF_HUB_OFFLINE": "1"}
    command = [python_with_package(), worker, folder, processes, KILLS, "3", moment, chunk_size]
    done = subprocess.run([*map(str, command)], stdout=subprocess.PIPE, text=True, env=environment, check=False)
    print(done.stdout)
    assert done.returncode == 0, done.stdout[-1000:]
    return done.stdout.splitlines()[-1]


@pytest.mark.parametrize(("processes", "chunk_size"), [(1, 3), (2, 0)])
def test_killed_while_it_saves_a_checkpoint(processes, chunk_size, tmp_path):
    assert "all resumed" in killed(tmp_path, processes, "checkpoint", chunk_size)


def test_killed_while_it_saves_the_model_at_the_end(tmp_path):
    assert "bit-equal" in killed(tmp_path, 1, "final", 0)
