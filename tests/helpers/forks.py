"""Children of a worker that has imported all: one process group of torch, and no second import."""

import os
import sys
import traceback

from ports import free_port


def fork(processes, job):
    """`job(rank)` in so many children, which are one process group of torch; their numbers."""
    port, children = str(free_port()), []
    for rank in range(processes):
        if not (child := os.fork()):
            if processes > 1:
                os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(processes), MASTER_PORT=port)
                os.environ.update(MASTER_ADDR="127.0.0.1", ACCELERATE_USE_CPU="true")
            code = 1
            try:
                job(rank)
                code = 0
            except BaseException:
                traceback.print_exc()  # the child ends without the interpreter
            finally:
                sys.stderr.flush()
                os._exit(code)
        children.append(child)
    return children


def ends(children):
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
