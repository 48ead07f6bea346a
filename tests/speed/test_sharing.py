"""Threads follow the cores that other processes leave free, unless the user has set their number."""

import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch

from contrastive_st.processors import Others, affinity, taken
from contrastive_st.speed import sharing


@pytest.fixture
def machine(monkeypatch):
    """Four cores, and a list of what others take of them at each look."""
    looks = []
    monkeypatch.delenv("OMP_NUM_THREADS")
    monkeypatch.setattr(sharing, "affinity", lambda: 4)
    monkeypatch.setattr(sharing, "_SECONDS", 0.0)
    monkeypatch.setattr(sharing, "Others", lambda: SimpleNamespace(taken=lambda: looks.pop(0)))
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield looks
    torch.set_num_threads(before)


def threads_after(looks, found, device="cpu", full_determinism=False):
    looks += found
    callback, numbers = sharing.FreeCores(), []
    for _ in found:
        callback.on_step_begin(SimpleNamespace(device=torch.device(device), full_determinism=full_determinism))
        numbers.append(torch.get_num_threads())
    callback.on_train_end()
    return numbers


def test_two_looks_in_a_row_decide(machine):
    assert threads_after(machine, [0.1, 1.2, 0.2, 1.2, 0.9, 0.0, 0.0]) == [4, 4, 4, 4, 3, 3, 4]
    assert threads_after(machine, [9.0, 9.0]) == [4, 1]
    assert torch.get_num_threads() == 4  # what it was before the training


def test_a_number_that_the_user_has_set_stays(machine, monkeypatch):
    assert threads_after(machine, [3.0, 3.0], "cuda") == [4, 4]
    assert threads_after(machine, [3.0, 3.0], full_determinism=True) == [4, 4]
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    assert threads_after(machine, [3.0, 3.0]) == [4, 4]


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other processes are seen on Linux alone")
def test_a_process_that_computes_is_seen():
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as other:
        try:
            assert 0.2 < taken(1.0) <= affinity()
        finally:
            other.kill()
    others = Others()
    for _ in range(10**6):  # its own work does not count
        pass
    assert others.taken() <= affinity()
