"""Threads follow the processors that a process may use."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from contrastive_st import processors

V2, V1 = Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/cpu")
RUN = "import sys; from contrastive_st.cli import main; main(['doctor']); print(sys.modules['torch'].get_num_threads())"


@contextlib.contextmanager
def limited_group(processors):
    """The file of a new cgroup that takes process ids, limited to so many processors; a skip where none can be made."""
    name = f"contrastive-st-{os.getpid()}"
    for place, limit, text in (
        (V1, "cpu.cfs_quota_us", f"{processors * 100_000}"), (V2, "cpu.max", f"{processors * 100_000} 100000")
    ):  # fmt: skip
        with contextlib.suppress(OSError):
            (place / name).mkdir()
            try:
                if (place / name / limit).is_file():
                    (place / name / limit).write_text(text)
                    yield place / name / "cgroup.procs"
                    return
            finally:
                (place / name).rmdir()
    pytest.skip("no cgroup with a limit of processors can be made here")


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


@pytest.mark.slow
def test_in_a_container_limited_to_one_processor_one_thread_computes_and_the_doctor_says_so():
    if processors.affinity() < 2:
        pytest.skip("there is one processor")
    environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    with limited_group(1) as group:

        def enter():
            group.write_text(str(os.getpid()))

        command = [sys.executable, "-c", RUN]
        done = subprocess.run(
            command, preexec_fn=enter, env=environment, capture_output=True, text=True, check=True
        ).stdout.splitlines()
    assert done[-1] == "1"
    (line,) = (line for line in done if line.startswith("threads "))
    assert f"1 of {os.cpu_count()} cores" in line
    assert "cgroup quota 1" in line
