"""Memory that a training step frees stays in the process."""

import subprocess
import sys

import pytest

FAULTS = """
import resource, sys, torch
from contrastive_st.models.cpu import keep_freed_memory
if sys.argv[1] == "kept":
    keep_freed_memory()
def fill():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    step = [torch.ones(20 << 20, dtype=torch.uint8) for _ in range(10)]
    del step
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
print([fill() for _ in range(4)][-1])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc alone has this")
def test_freed_memory_is_used_again_without_new_pages():
    faults = {
        case: int(subprocess.run([sys.executable, "-c", FAULTS, case], capture_output=True, text=True).stdout)
        for case in ("kept", "returned")
    }
    if faults["returned"] < 10_000:
        pytest.skip("this C library keeps freed memory by itself")
    assert faults["kept"] < faults["returned"] / 5, faults
