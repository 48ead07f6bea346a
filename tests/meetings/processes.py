"""`together`: a function in several processes that train together. Each is a fork of one that has imported all.

A new process has no state of earlier runs (accelerate keeps some), and costs a fraction of a second.
"""

import multiprocessing
import os
import sys
import time
import traceback
from multiprocessing import connection, forkserver
from pathlib import Path
from unittest import mock

from ports import free_port

SECONDS = 300  # a run that takes longer hangs
_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["meetings.warm"])
_paths = os.pathsep.join([str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])])


class RunFailed(AssertionError):
    """A run ended in an error, or did not end."""


def together(count, function, *args):
    """What `function(*args)` returns in each of `count` processes of one group.

    Args:
        count: the number of processes; one has no process group.
        function: of a module; returns what can be pickled.
        args: what it is called with.

    Raises:
        RunFailed: with the last lines of the traceback of the first process that failed.
    """
    port = free_port()
    with mock.patch.dict(os.environ, PYTHONPATH=_paths):  # it imports before it has the path of this process
        forkserver.ensure_running()
    ends, running = [], []
    for rank in range(count):
        ours, theirs = _context.Pipe(duplex=False)
        process = _context.Process(target=_child, args=(theirs, rank, count, port, os.getcwd(), function, args))
        process.start()
        theirs.close()
        ends.append(ours)
        running.append(process)
    outcomes = {}
    try:
        while left := [end for end in ends if end not in outcomes]:
            ready = connection.wait(left, SECONDS)
            if not ready:
                raise RunFailed(f"process {ends.index(left[0])} of {count} has not ended in {SECONDS} s")
            for end in ready:
                try:
                    kind, outcomes[end] = end.recv()
                except EOFError:
                    kind, outcomes[end] = "failed", f"process {ends.index(end)} of {count} ended without an outcome"
                if kind == "failed":  # the others may wait for it
                    raise RunFailed(outcomes[end])
        return [outcomes[end] for end in ends]
    finally:
        for process in running:
            process.kill()
            process.join()


def _child(end, rank, count, port, folder, function, args):
    os.chdir(folder)
    os.environ.update(ACCELERATE_USE_CPU="true", HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
    if count > 1:
        os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(count), LOCAL_WORLD_SIZE=str(count))
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
    import torch

    torch.set_num_threads(1)
    try:
        outcome = ("done", function(*args))
    except BaseException:
        outcome = ("failed", "".join(traceback.format_exc().splitlines(keepends=True)[-12:]))
    end.send(outcome)
    time.sleep(SECONDS)  # a process that ends while the others communicate aborts them; all are killed together
