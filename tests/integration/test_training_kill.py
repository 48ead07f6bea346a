"""kill -9 in the middle of saves: every kill resumes, and the end is that of a run that was never killed.

A share of `attack/kills.py`, which kills as often as it is told.
"""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "attack"))

import kills

KILLS = 2


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["cached", "two"])
def test_killed_while_it_saves_a_checkpoint(kind, tmp_path):
    assert "all resumed" in kills.kill_training(tmp_path, kind, KILLS, seed=3)


@pytest.mark.slow
def test_killed_while_it_saves_the_model_at_the_end(tmp_path):
    assert "bit-equal" in kills.kill_training(tmp_path, "plain", KILLS, seed=3, moment="final")
