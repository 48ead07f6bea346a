"""The end of a command that several processes run: its exit code arrives, whatever threads of the group are left."""

import os
import subprocess
import sys

import pytest

#: Two forked processes; in the first, a callback of a future is called by a thread of gloo when the second has ended,
#: which is after the interpreter has begun to finalize. `os._exit` must come before that
JOB = """
import atexit, os, sys, time
import torch, torch.distributed as dist
from contrastive_st.errors import InputError
from contrastive_st.commands import run
path, ending, parent = sys.argv[1], sys.argv[2], os.getpid()
rank = 0 if os.fork() else 1
dist.init_process_group("gloo", init_method="file://" + path, rank=rank, world_size=2)
dist.barrier()
if rank:  # ends when the first process has begun to finalize, and its connection with it
    while os.path.exists(path):
        time.sleep(0.02)
    time.sleep(0.3)
    os._exit(0)

class Late:  # torn down with the module, in finalization
    def __del__(self, sleep=time.sleep):
        sleep(2)

late = Late()
def job():
    global future
    future = dist.all_reduce(torch.ones(3), async_op=True).get_future().then(lambda work: None)
    atexit.register(lambda: (os.path.exists(path) and os.remove(path), print("registered")))
    if ending == "error":
        raise InputError("no such rows")
    raise RuntimeError("unforeseen")
sys.exit(run(job))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="gloo over TCP between forked processes")
@pytest.mark.parametrize(("ending", "code"), [("error", 2), ("traceback", 1)])
def test_a_process_of_several_ends_with_its_code(ending, code, tmp_path):
    command = [sys.executable, "-c", JOB, str(tmp_path / "store"), ending]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env={**os.environ, "RANK": "0"})
    assert done.returncode == code, done.stderr
    assert "terminate called" not in done.stderr
    assert done.stdout == "registered\n"  # what was registered with atexit still ran
    assert ("Traceback" in done.stderr) == (ending == "traceback")
