"""Each law fails when its mechanism is broken: one mechanism a law here, all of them by `make meetings`."""

import pytest

from meetings import breaks, test_training, training
from meetings.test_training import ASKED, root  # noqa: F401

pytestmark = pytest.mark.slow
OF_EACH_LAW = {broken.law: name for name, broken in breaks.BREAKS.items()}.values()


@pytest.mark.parametrize("name", breaks.BREAKS if ASKED else OF_EACH_LAW)
def test_a_law_fails_without_its_mechanism(root, name):  # noqa: F811
    broken = breaks.BREAKS[name]
    found = test_training.faults(training.parsed(f"{broken.line} broken={name}"), root)
    assert broken.law in {fault[0] for fault in found}, found
