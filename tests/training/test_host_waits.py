"""Between two logs no step reads a value from the device: a GPU runs ahead, since the host asks it nothing.

On a CPU, where a read costs nothing, each is caught as torch is asked for it: every tensor of a step counts as one that
is on the device. What a loader and a collator do is the host's own.
"""

import distributed_worker as grid
import pytest
from host_waits import STEPS, watched

from contrastive_st.losses import InfoNCE

pytestmark = pytest.mark.slow

#: Decoders ask: torch's adaptive softmax for the words of each cluster, and Skip-Thoughts for who is whose neighbour
DECODERS = ("skip_thoughts",)
#: A loss is computed in the same way in each step; so the other steps get one method of each kind of rows and states
OTHER_STEPS = {
    "gradcache": (
        "info_nce-V3", "guided-V3-matryoshka", "candidates-kl", "regression", "classification-infersent", "mlm",
        "multi_task", "mixture-matryoshka", "documents-V2", "static-info_nce", "user-encoder_and_loss",
    ),
    "queue": ("info_nce-V2", "guided-V2"),
    "gradcache-queue": ("info_nce-V3", "guided-V2"),
}  # fmt: skip
#: Whose parts are those of others
ALIKE = (
    "next-cosine", "window-one_mean_tower", "window-block-mask", "counts-cosine", "tfidf-dot-mask", "span_cutoff",
    "classification-sbert", "decoder-bidirectional", "candidates-kl", "user-margin", "user-encoder", "user_regression",
)  # fmt: skip
PLAIN = [name for name in grid.METHODS if name not in DECODERS + ALIKE and not name.endswith(("matryoshka", "-V2"))]
CASES = [
    *((method, "plain") for method in (*PLAIN, "guided-V3-matryoshka", "mixture-matryoshka")),
    *((method, step) for step, methods in OTHER_STEPS.items() for method in methods),
]


@pytest.mark.parametrize(("method", "step"), CASES, ids=["-".join(case) for case in CASES])
def test_no_step_reads_from_the_device(method, step, tmp_path, monkeypatch):
    assert watched(method, tmp_path, monkeypatch, **STEPS[step]) == []


def test_a_read_is_seen(tmp_path, monkeypatch):
    """The test above can fail: a loss that asks for its value is caught."""
    call = InfoNCE.__call__

    def asking(self, *args, **kwargs):
        found = call(self, *args, **kwargs)
        assert found > 0
        return found

    monkeypatch.setattr(InfoNCE, "__call__", asking)
    assert watched("info_nce-V2", tmp_path, monkeypatch)
