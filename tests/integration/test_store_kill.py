"""kill -9 of the indexer, of the database and of both, while rows are added, updated and deleted.

A share of `attack/kills.py`, which kills as often as it is told.
"""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "attack"))

import kills


@pytest.mark.slow
def test_no_row_is_lost_torn_or_there_twice():
    assert "bit-equal" in kills.kill_indexer(3, seed=4)
