"""kill -9 of `contrastive-st encode`: run again, it gives the bytes of a run that was never killed.

`CONTRASTIVE_ST_KILLS=30 pytest -s tests/integration/test_encode_kill.py` kills thirty times instead of twice.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest
from warm_python import python_with_package

KILLS = int(os.environ.get("CONTRASTIVE_ST_KILLS", "2"))
PIECE = 16_384  # texts that are committed together


def rows_there(part):
    try:
        return json.loads((part / "state.json").read_text())["rows"]
    except FileNotFoundError:
        return 0


@pytest.mark.slow
@pytest.mark.parametrize(("name", "precision", "kills"), [("v.npy", "float32", KILLS), ("v.parquet", "int8", 1)])
def test_a_killed_run_goes_on_and_ends_with_the_same_bytes(tmp_path, name, precision, kills):
    words, moments, count = ["old", "mat", "dog", "cat", "ran"], random.Random(1), (2 * kills + 3) * PIECE + 5
    with open(tmp_path / "texts.txt", "w") as file:
        file.writelines(f"{' '.join(moments.choices(words, k=2))} {i}\n" for i in range(count))
    command = lambda output, executable: [
        executable, "-m", "contrastive_st.cli", "encode", str(tmp_path / "texts.txt"), "-o", str(tmp_path / output),
        "--precision", precision, "-m", "static-minilm",
    ]  # fmt: skip
    part, there = tmp_path / f"{name}.part", 0
    for number in range(kills):
        worker = subprocess.Popen(command(name, sys.executable), stderr=subprocess.PIPE)
        wanted, deadline = there + moments.randint(1, 2) * PIECE, time.monotonic() + 300
        while worker.poll() is None and rows_there(part) < wanted and time.monotonic() < deadline:
            time.sleep(0.002)
        if number == 0:  # a second one keeps off while the first one lives
            worker.send_signal(signal.SIGSTOP)
            second = subprocess.run(command(name, python_with_package()), capture_output=True, text=True, timeout=300)
            assert (second.returncode, "another process is encoding" in second.stderr) == (2, True), second.stderr
            worker.send_signal(signal.SIGCONT)
        time.sleep(moments.random() * 0.1)
        worker.kill()
        error = worker.communicate()[1].decode()
        there = rows_there(part)
        print(f"kill {number + 1} of {kills}: {there:,} of {count:,} rows there", flush=True)
        assert there >= wanted, error
    assert there < count, "the last kill came too late to tell anything"
    for output in (name, f"whole-{name}"):
        done = subprocess.run(command(output, python_with_package()), capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr
        assert f"{count:,} vectors of 256 dimensions" in done.stderr
        print(done.stderr)
    names = [name, *(["v.ranges.npy"] if precision == "int8" else [])]
    assert all((tmp_path / own).read_bytes() == (tmp_path / f"whole-{own}").read_bytes() for own in names)
    assert {path.name for path in tmp_path.iterdir()} == {"texts.txt", *names, *(f"whole-{own}" for own in names)}
