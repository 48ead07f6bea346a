"""Runs in each of W gloo processes: losses and gradients of candidates that are gathered, and of those that go round.

python ring_worker.py RANK WORLD PORT OUT
"""

import sys

import torch
import torch.distributed as dist

from contrastive_st import distributed
from contrastive_st.distributed import LOCAL, ProcessGather
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


def main(rank, world, port, out):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=world)
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
    everybody = [None] * world
    dist.all_gather_object(everybody, found)
    if rank == 0:
        torch.save(everybody, out)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4])
