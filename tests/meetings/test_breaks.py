"""Each law fails when its mechanism is broken, and a failure prints the smallest combination and how to repeat it."""

import pytest
from hypothesis import Phase

from contrastive_st.search.postgres import writes
from meetings import breaks, test_store, test_training, training
from meetings.test_store import _world  # noqa: F401  (a server for the state machine)
from meetings.test_training import root  # noqa: F401

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", breaks.BREAKS)
def test_a_law_fails_without_its_mechanism(root, name):  # noqa: F811
    broken = breaks.BREAKS[name]
    found = test_training.faults(training.parsed(f"{broken.line} broken={name}"), root)
    assert broken.law in {fault[0] for fault in found}, found


def test_a_failure_prints_the_smallest_combination(monkeypatch):
    """Of all choices that change nothing."""
    broken = lambda combination, _: ["a: gradients differ"] if combination["processes"] == "2" else []
    monkeypatch.setattr(test_training, "faults", broken)
    line = "processes=2 base=bfloat16 resume=1 broken=gather_without_gradient"
    with pytest.raises(AssertionError) as error:
        test_training.hold(training.parsed(line), None)
    smallest = "processes=2 broken=gather_without_gradient"
    assert f"CONTRASTIVE_ST_MEETINGS='{smallest}' python -m pytest tests/meetings/test_training.py" in str(error.value)


def test_the_state_machine_finds_words_that_stay(monkeypatch, capsys):
    """The words of deleted documents are still counted."""
    monkeypatch.setattr(writes, "remove_words", lambda *args: None)
    with pytest.raises(AssertionError) as error:
        test_store.run(2, 99, 8, (Phase.generate,))  # a seed that finds it soon; shrinking takes minutes
    assert "state.begin" in "".join(error.value.__notes__)
    assert "CONTRASTIVE_ST_MEETINGS=seed=2 python -m pytest" in capsys.readouterr().out
