"""Memory that a training step frees stays in the process."""

import subprocess
import sys

import pytest

FAULTS = """
import ctypes, resource, sys
from contrastive_st.models.hardware import keep_freed_memory
if sys.argv[1] == "kept":
    keep_freed_memory()
libc, size = ctypes.CDLL(None), 20 << 20
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
libc.memset.argtypes, libc.free.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t], [ctypes.c_void_p]
def step():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    blocks = [libc.malloc(size) for _ in range(10)]
    for block in blocks:
        libc.memset(block, 1, size)
    for block in blocks:
        libc.free(block)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
print([step() for _ in range(5)][-1])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc alone has this")
def test_freed_memory_is_used_again_without_new_pages():
    faults = {}
    for case in ("kept", "returned"):
        done = subprocess.run([sys.executable, "-c", FAULTS, case], capture_output=True, text=True, check=True)
        faults[case] = int(done.stdout)
    if faults["returned"] < 10_000:
        pytest.skip("this C library keeps freed memory by itself")
    assert faults["kept"] < 1000, faults
