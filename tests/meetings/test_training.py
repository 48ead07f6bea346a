"""The laws of training for every meeting of choices (`training.py`): a part here, all of them by `make meetings`.

`CONTRASTIVE_ST_MEETINGS` is `all`, or one combination as a failure prints it, such as `processes=2 loss=cosent`.
"""

import os

import pytest
from ranks import RunFailed, together

from contrastive_st.losses import LOSSES
from meetings import training
from meetings.covering import covering

ASKED = os.environ.get("CONTRASTIVE_ST_MEETINGS", "")
#: Run with all tests
PART = (
    "processes=2 loss=document_info_nce base=float16 validation=scored evaluator=ours keep=best resume=3",
    "processes=2 loss=consistent_info_nce way=padded base=bfloat16 adapter=lora feed=stream validation=scored "
    "evaluator=ours accumulation=2 queue=yes",
    "processes=2 loss=own_encoder way=chunks resume=1 dropout=0.1 queue=yes",
    "processes=2 loss=relational_distillation way=chunks adapter=dora step=checkpointed",
    "processes=2 way=chunks adapter=lora sharded=yes evaluator=ours keep=best resume=3",
    "processes=3 step=bf16 validation=split batch=halved",
    "loss=texts feed=runs resume=workers dropout=0.1",
    "loss=document_info_nce feed=neighbors resume=3 dropout=0.1",
    "loss=mixture feed=parts resume=1 accumulation=2 dropout=0.1",
    "processes=2 loss=texts feed=shuffled resume=1 dropout=0.1",
    "processes=2 loss=mixture way=chunks feed=parts resume=3 dropout=0.1",
)
pytestmark = pytest.mark.slow


def combinations():
    if ASKED not in ("", "all"):
        return [training.parsed(ASKED)]
    if not ASKED:
        return [training.parsed(line) for line in PART]
    refused = {}
    reasons = lambda c: [name for name, (condition, _) in training.REFUSED.items() if condition(c)]
    for combination in covering(training.AXES, lambda c: training.is_met(c) and len(reasons(c)) < 2):
        for name in reasons(combination):
            refused.setdefault((name, combination["loss"]), combination)
    drawn = covering(training.AXES, lambda c: training.is_met(c) and not reasons(c), also="processes")
    return [*drawn, *map(training.parsed, training.BESIDES), *refused.values()]


@pytest.fixture(scope="session")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("meetings")
    (folder / "bases").mkdir()
    together(1, training.make_bases, folder / "bases")
    return folder


def faults(combination, root):
    """What a run of a combination, in a new folder, shows."""
    folder = root / str(len(list(root.iterdir())))
    folder.mkdir()
    try:
        return training.check(combination, folder)
    except RunFailed as error:
        return [f"e: {error}"]


def hold(combination, root):
    """Hold a combination to the laws; an error has the smallest combination that breaks the same law."""
    found = faults(combination, root)
    if not found:
        return
    law, smallest = found[0][0], combination
    for name, value in training.DEFAULT.items():
        fewer = {**smallest, name: value}
        if fewer != smallest and training.refusal(fewer) == training.refusal(smallest):
            again = faults(fewer, root)
            if again and again[0][0] == law:
                smallest, found = fewer, again
    line = training.shown(smallest)
    raise AssertionError(
        f"{line}: {'; '.join(found)}\nrepeat it: CONTRASTIVE_ST_MEETINGS='{line}' python -m pytest "
        "tests/meetings/test_training.py"
    )


@pytest.mark.parametrize("combination", combinations(), ids=training.shown)
def test_laws(root, combination, record_property):
    record_property("meeting", "refused" if training.refusal(combination) else "held")
    hold(combination, root)


def test_every_loss_of_the_package_is_met():
    named = {"info_nce", "matryoshka", *training.AXES["loss"]}
    assert {name for name, kind in LOSSES.items() if kind.of_package} <= named
