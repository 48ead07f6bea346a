"""Threads follow the processors that a process may use."""

import os
import subprocess
import sys

import pytest

from contrastive_st import processors

#: In a container that allows one of two processors
RUN = """
import os, sys
from pathlib import Path
files = {"/proc/self/cgroup": "0::/a", "/sys/fs/cgroup/a/cpu.max": "100000 100000"}
read = Path.read_text
Path.read_text = lambda path, *args, **options: files.get(str(path)) or read(path, *args, **options)
os.sched_getaffinity = lambda process: {0, 1}
from contrastive_st.cli import main
main(["doctor"])
print(sys.modules["torch"].get_num_threads())
"""


@pytest.mark.parametrize(("controllers", "files", "expected"), [
    ("", {"a/b/cpu.max": "max 100000\n"}, None),
    ("", {"a/b/cpu.max": "max 100000", "a/cpu.max": "50000 100000"}, 0.5),
    ("", {"cpu.max": "200000 100000"}, 2.0),  # a container that sees its own cgroup as the root
    ("cpu,cpuacct", {"cpu,cpuacct/a/b/cpu.cfs_quota_us": "-1", "cpu,cpuacct/a/b/cpu.cfs_period_us": "100000"}, None),
    ("cpu", {"cpu/a/cpu.cfs_quota_us": "300000\n", "cpu/a/cpu.cfs_period_us": "100000\n"}, 3.0),
    ("memory", {"a/b/cpu.max": "50000 100000"}, None),
])  # fmt: skip
def test_a_quota_is_read(controllers, files, expected, tmp_path):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    own = tmp_path / "own"
    own.write_text(f"4:{controllers}:/a/b\n")
    assert processors.quota(tmp_path, own) == expected


def test_a_quota_is_rounded_and_never_above_the_affinity(monkeypatch):
    for granted, expected in ((None, 8), (0.2, 1), (1.4, 1), (1.6, 2), (99.0, 8)):
        monkeypatch.setattr(processors, "affinity", lambda: 8)
        monkeypatch.setattr(processors, "quota", lambda granted=granted: granted)
        assert processors.usable() == expected


def test_with_a_quota_of_one_processor_one_thread_computes_and_the_doctor_says_so():
    environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    command = [sys.executable, "-c", RUN]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.splitlines()
    assert done[-1] == "1"
    (line,) = (line for line in done if line.startswith("threads "))
    assert f"1 of {os.cpu_count()} cores" in line
    assert "cgroup quota 1" in line
