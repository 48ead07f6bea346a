"""The machine of a benchmark, for the first line that it prints, and whether other jobs use its cores."""

from __future__ import annotations

import os
import platform
import sys
import time
from datetime import date
from itertools import takewhile

#: What multiplies matrices, the fastest first, by the names of Linux
INSTRUCTIONS = {"amx_bf16": "AMX", "avx512_bf16": "AVX512-BF16", "avx512f": "AVX512", "avx2": "AVX2"}
CPUINFO, _BUSY = "/proc/cpuinfo", 0.1  # cores


def machine() -> str:
    """Date, processor with its fastest instructions for products, and cores; warns if other jobs use them."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    if (busy := busy_cores()) > _BUSY:
        print(f"warning: other jobs use {busy:.1f} of {cores} cores; these results will be too low", file=sys.stderr)
    return f"{date.today()}, {processor()}, {cores} cores, {busy:.1f} of them busy"


def processor() -> str:
    """Name, family, model and instructions, such as `AMD EPYC 26/2 (AVX512-BF16)`; elsewhere what Python knows."""
    try:
        with open(CPUINFO, encoding="utf-8") as lines:
            first = dict(map(str.strip, line.split(":", 1)) for line in takewhile(str.strip, lines))
    except OSError:
        first = {}
    if "model name" not in first:  # on ARM too
        return platform.processor() or platform.machine()
    flags = first.get("flags", "").split()
    best = next((shown for name, shown in INSTRUCTIONS.items() if name in flags), platform.machine())
    return f"{first['model name']} {first.get('cpu family')}/{first.get('model')} ({best})"


def busy_cores(seconds: float = 1.0) -> float:
    """How many cores work while this process sleeps; 0 outside Linux."""
    try:
        before = _ticks()
        time.sleep(seconds)
        return max(_ticks() - before, 0) / os.sysconf("SC_CLK_TCK") / seconds
    except OSError:
        return 0.0


def _ticks() -> int:
    with open("/proc/stat", encoding="ascii") as lines:
        user, nice, system = map(int, lines.readline().split()[1:4])
    return user + nice + system


if __name__ == "__main__":
    print(machine())
