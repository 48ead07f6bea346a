"""InfoNCE whose false negatives a guide masks: against a plain loop, with a queue, and with planted false negatives."""

import pytest
import torch
from plain import agree, loop_guided
from refusals import refusal
from torch import nn

from contrastive_st.data import DropoutPairCollator, GuidedRows, PairCollator
from contrastive_st.errors import InputError
from contrastive_st.losses import GuidedInfoNCE, MatryoshkaLoss, functional as blocks
from contrastive_st.losses.info_nce import Queue
from meetings.covering import covering


def drawn(rows=6, num_views=3, dim=5):
    return (
        torch.randn(rows, num_views, dim, dtype=torch.float64, requires_grad=True),
        torch.randn(rows, num_views, 4, dtype=torch.float64),
    )


AXES = {
    "num_views": (2, 4), "strategy": ("absolute", "relative"), "margin": (0.0, 0.3), "anchors": (False, True),
    "positives": (False, True), "block": (None, 30),
}  # fmt: skip


@pytest.mark.parametrize("case", covering(AXES, lambda case: True, also="num_views"), ids=str)
def test_equals_a_plain_loop(case, monkeypatch):
    num_views, strategy, margin, *same_side, block = case.values()
    if block:
        monkeypatch.setattr(blocks, "BLOCK", block)
    views, guide = drawn(num_views=num_views)
    keys = torch.arange(6 * num_views).view(6, num_views)
    keys[3, 0], keys[4, 1], keys[2, -1], keys[5, 0] = keys[0, 0], keys[1, 1], keys[4, 1], keys[2, 1]
    loss_fn = GuidedInfoNCE(0.3, 0.2, num_views == 2, margin, strategy, *same_side)
    agree(loss_fn(views, guide, text_hashes=keys), loop_guided(views, guide, loss_fn, keys), views)
    assert loss_fn.metrics(views, guide, text_hashes=keys)["masked"] > 0


def test_what_the_guide_cannot_tell_apart_stays_whatever_the_rounding():
    """Vectors that are equal but for their lengths, and products of every shape: rounding decides of no mask."""
    torch.manual_seed(3)
    anchors, positive = torch.randn(40, 1, 7), torch.randn(1, 1, 7)
    guide = torch.cat([anchors, positive * torch.rand(40, 1, 1).add(0.1)], 1)
    views = torch.randn(40, 2, 5)
    scores, _ = GuidedInfoNCE().scores(views, guide)
    assert not scores.isneginf().any()


def test_candidates_of_a_queue_are_masked_too():
    views, guide = drawn(num_views=2)
    unit = nn.functional.normalize(torch.randn(4, 5, dtype=torch.float64), dim=-1)
    theirs = nn.functional.normalize(torch.randn(4, 4, dtype=torch.float64), dim=-1)
    theirs[2] = nn.functional.normalize(guide[3, 0], dim=-1)  # the guide takes it for the anchor of row 3
    queue = Queue(unit, -torch.arange(1, 9).view(4, 2) * 100, theirs)
    scores, _ = GuidedInfoNCE(0.2).scores(views, guide, queue=queue)
    ours = nn.functional.normalize(guide, dim=-1)
    wanted = ours[:, 0] @ theirs.T > (ours[:, 0] * ours[:, 1]).sum(-1, keepdim=True)
    assert torch.equal(scores[:, 6:].isneginf(), wanted)
    assert wanted[3, 2]
    with pytest.raises(InputError, match="embeddings"):
        GuidedInfoNCE()(views, guide, queue=queue._replace(guide=None))
    cut = MatryoshkaLoss(GuidedInfoNCE(0.2), (3,))(views, guide, queue=queue)
    small = queue._replace(embeddings=nn.functional.normalize(unit[:, :3], dim=-1))
    torch.testing.assert_close(cut, GuidedInfoNCE(0.2)(views[..., :3], guide, queue=small))


def test_rows_bring_the_guide_through_the_collators(tokenizer):
    from datasets import Dataset

    texts = Dataset.from_dict({"a": ["the cat", "a dog"], "b": ["cat", "dog"]})
    lengths = lambda texts: torch.tensor([[len(text), 1.0] for text in texts]).numpy()
    rows = GuidedRows([{"input_ids": [[5], [6, 7]]}, {"input_ids": [[8], [9]]}], texts, lengths)
    batch = PairCollator(tokenizer)([rows[0], rows[1]])
    assert batch["targets"].tolist() == [[[7, 1], [3, 1]], [[5, 1], [3, 1]]]
    assert batch["input_ids"].shape == (2, 2, 2)
    single = GuidedRows([{"input_ids": [5]}, {"input_ids": [6]}], texts.remove_columns("b"), lengths)
    assert DropoutPairCollator(tokenizer)([single[0], single[1]])["targets"].tolist() == [[[7, 1]] * 2, [[5, 1]] * 2]
    with pytest.raises(InputError, match="tokenized"):
        GuidedRows([{}], texts, lengths)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GuidedInfoNCE(margin_strategy="share"), "absolute or relative"),
        (lambda: GuidedInfoNCE(margin=float("nan")), "margin nan"),
        (lambda: GuidedInfoNCE(temperature=0), "temperature"),
        (lambda: GuidedInfoNCE()(torch.randn(3, 2, 4)), "GuidedRows.*got none"),
        (
            lambda: GuidedInfoNCE()(torch.randn(3, 2, 4), torch.randn(3, 4)),
            r"got \(3, 4\)",
        ),
        (lambda: GuidedInfoNCE(margin=3.0)(torch.randn(3, 2, 4), torch.randn(3, 2, 4)), "masked by the guide"),
    ],
)
def test_bad_input_is_one_line(make, message):
    with refusal(message):
        make()
