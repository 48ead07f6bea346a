"""The first line of a benchmark: which machine this is, and whether it is free."""

import os
import platform
import sys

import pytest

BENCHMARKS = os.path.join(os.path.dirname(__file__), "..", "..", "benchmarks")


@pytest.fixture
def machine(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    import machine

    monkeypatch.setattr(machine.time, "sleep", lambda seconds: None)
    return machine


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize(("cores", "told"), [(0.05, False), (1.5, True)])
def test_other_jobs_are_told(machine, monkeypatch, capsys, cores, told):
    ticks = iter([1000, 1000 + round(cores * os.sysconf("SC_CLK_TCK"))])
    monkeypatch.setattr(machine, "_ticks", lambda: next(ticks))
    line = machine.machine()
    assert line.endswith(f"{cores:.1f} of them busy")
    assert ("warning: other jobs use 1.5 of" in capsys.readouterr().err) == told


@pytest.mark.parametrize(
    ("flags", "shown"),
    [("avx2 avx512f avx512_bf16", "AVX512-BF16"), ("fma avx2", "AVX2"), ("neon", platform.machine())],
)
def test_the_processor_has_its_fastest_instructions(machine, monkeypatch, tmp_path, flags, shown):
    path = tmp_path / "cpuinfo"
    path.write_text(
        f"model name\t: Some CPU\ncpu family\t: 6\nmodel\t\t: 9\nflags\t\t: {flags}\n\nflags\t\t: amx_bf16\n"
    )
    monkeypatch.setattr(machine, "CPUINFO", str(path))
    assert machine.processor() == f"Some CPU 6/9 ({shown})"
    monkeypatch.setattr(machine, "CPUINFO", str(tmp_path / "none"))
    assert machine.processor() == (platform.processor() or platform.machine())
