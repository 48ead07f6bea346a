"""A few seconds of `flood.py`: every answer is right, memory is bounded, and the server ends when told to."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the API needs the extra api")
pytest.importorskip("prometheus_client", reason="the API needs the extra api")
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("api")]


def test_a_flood():
    if not Path("/proc/self/statm").exists():
        pytest.skip("memory is read from /proc")
    flood = Path(__file__).with_name("flood.py")
    command = [sys.executable, str(flood), "--seconds", "4", "--clients", "40", "--connections", "300"]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=400, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert "Traceback" not in done.stderr
    assert found["answers"].get("right", 0) > 0, found
    assert set(found["answers"]) <= {"right", "429", "503"}, found
    statuses = {name.split(": ")[1] for name in found["attacks"] if ": " in name}
    assert statuses <= {"200", "400", "408", "413", "422", "429", "0", "-1"}, found
    assert found["exit codes"] == [0, 0, 0, 0]
    assert found["MiB above idle"] < 1024, found
    assert found["health p95 ms"] < 2_000 + 4 * found["idle server p95 ms"], found  # where others use the cores too
    assert found["seconds to end"] < 20, found
