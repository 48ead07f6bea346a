"""Runs in each of W gloo processes what they share: candidates that are gathered or go round, and gradients.

The losses and gradients of candidates that are gathered, and of those that go round; gradients by DDP's own
`all_reduce` and by `add_gradients`, of few and many words.
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from contrastive_st import distributed
from contrastive_st.distributed import LOCAL, ProcessGather, add_gradients
from contrastive_st.losses import DocumentInfoNCE, GuidedInfoNCE, InfoNCE, MatryoshkaLoss

LOSSES = {
    "info_nce": InfoNCE(temperature=0.3, hard_negative_weight=0.4),
    "symmetric": InfoNCE(symmetric=True),
    "guided": GuidedInfoNCE(margin=0.1, contrast_anchors=True, contrast_positives=True),
    "relative": GuidedInfoNCE(margin=0.2, margin_strategy="relative", hard_negative_weight=0.1),
    "documents": DocumentInfoNCE(temperature=0.2),
    "matryoshka": MatryoshkaLoss(InfoNCE(), dims=(6, 3)),
}
ROWS = [4, 1, 3]  # of each rank: 8 together
WORDS = 60


class Counted(ProcessGather):
    """Counts the vectors that this process gets whole."""

    vectors = 0

    def __call__(self, rows, sizes=None):
        self.vectors += rows.is_floating_point()
        return super().__call__(rows, sizes)


def data(num_views):
    generator = torch.Generator().manual_seed(5)
    views = torch.randn(8, num_views, 6, generator=generator, dtype=torch.float64)
    guide = torch.randn(8, num_views, 4, generator=generator, dtype=torch.float64)
    hashes = torch.arange(8 * num_views).view(8, num_views)
    hashes[6], hashes[5, 1] = hashes[1], hashes[0, 1]  # equal texts on two ranks
    return views, guide, hashes


def run(loss, views, guide, hashes, rows, gather):
    own = views[rows].clone().requires_grad_()
    targets = torch.arange(8) // 3 if isinstance(loss, DocumentInfoNCE) else guide
    value = loss(own, targets[rows], text_hashes=hashes[rows], gather=gather)
    value.backward()
    return value.detach(), own.grad


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.layer = nn.Embedding(WORDS, 4, padding_idx=0), nn.Linear(4, 3)
        self.more = nn.Embedding(WORDS, 2)

    def forward(self, ids):
        return (self.layer(self.words(ids)).pow(3).sum() + self.more(ids).pow(3).sum()) / 10


def gradients(ids, own, sent):
    torch.manual_seed(0)
    core = Words().double()
    model = DistributedDataParallel(core, gradient_as_bucket_view=True)
    if own:
        tables = {id(core.words.weight), id(core.more.weight)}
        model.register_comm_hook(tables, lambda tables, bucket: add_gradients(tables, bucket))
    for _ in range(2):  # DDP makes its buckets anew after the first step
        model.zero_grad()
        with model.no_sync():
            model(ids[0]).backward()
        sent.clear()
        model(ids[1]).backward()
    return [parameter.grad.clone() for parameter in core.parameters()]


def added_up(rank):
    """How far the gradients by `add_gradients` are from those of DDP, and how many numbers are sent for them."""
    sent, plain, found = [], dist.all_reduce, {}

    def counted(tensor, *args, **kwargs):
        sent.append(tensor.numel() if tensor.is_floating_point() else 0)
        return plain(tensor, *args, **kwargs)

    for name, number in {"few": 3, "many": 40, "none": 0}.items():
        generator = torch.Generator().manual_seed(rank)
        ids = torch.randint(0, WORDS, (2, number), generator=generator)
        wanted = gradients(ids, False, sent)
        dist.all_reduce = counted
        given = gradients(ids, True, sent)
        dist.all_reduce = plain
        errors = [float((a - b).abs().max()) for a, b in zip(wanted, given, strict=True)]
        found[name] = {"error": max(errors), "size": float(wanted[0].abs().max()), "sent": sum(sent)}
    return found


def main(world):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    sizes = ROWS if world == 3 else [5, 3]
    rows = slice(sum(sizes[:rank]), sum(sizes[: rank + 1]))
    distributed._SCORES = 8  # several slices of anchors a block
    found = {}
    for name, loss in LOSSES.items():
        for num_views in (2, 3):
            batch = data(num_views)
            whole = run(loss, *batch, slice(None), LOCAL)
            for kind, limit in (("gather", 1 << 60), ("ring", 0)):
                gather = Counted(gathered=limit)
                value, gradient = run(loss, *batch, rows, gather)
                dist.all_reduce(value)
                found[name, num_views, kind] = {
                    "loss": (value / world - whole[0]).abs().item(),
                    "gradient": (gradient / world - whole[1][rows]).abs().max().item(),
                    "size": whole[1].abs().max().item(),
                    "vectors": gather.vectors,
                }
    return {"candidates": found, "gradients": added_up(rank)}
