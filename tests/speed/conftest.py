"""The tricks are tested switched on, whatever CONTRASTIVE_ST_SPEED says of the other tests."""

import pytest

from contrastive_st import speed


@pytest.fixture(autouse=True)
def switched_on(monkeypatch):
    monkeypatch.setattr(speed.switch, "on", True)
