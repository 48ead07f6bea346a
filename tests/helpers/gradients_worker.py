"""Runs in each of W gloo processes: gradients by DDP's own `all_reduce` and by `add_gradients`, of few and many words.

python gradients_worker.py RANK WORLD PORT OUT
"""

import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from contrastive_st.distributed import add_gradients

WORDS = 60


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.layer = nn.Embedding(WORDS, 4, padding_idx=0), nn.Linear(4, 3)
        self.more = nn.Embedding(WORDS, 2)

    def forward(self, ids):
        return (self.layer(self.words(ids)).pow(3).sum() + self.more(ids).pow(3).sum()) / 10


def gradients(ids, own, sent):
    torch.manual_seed(0)
    core = Model().double()
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


def main(rank, world, port, out):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=world)
    sent, plain = [], dist.all_reduce

    def counted(tensor, *args, **kwargs):
        sent.append(tensor.numel() if tensor.is_floating_point() else 0)
        return plain(tensor, *args, **kwargs)

    found = {}
    for name, number in {"few": 3, "many": 40, "none": 0}.items():
        generator = torch.Generator().manual_seed(rank)
        ids = torch.randint(0, WORDS, (2, number), generator=generator)
        wanted = gradients(ids, False, sent)
        dist.all_reduce = counted
        given = gradients(ids, True, sent)
        dist.all_reduce = plain
        errors = [float((a - b).abs().max()) for a, b in zip(wanted, given, strict=True)]
        found[name] = {"error": max(errors), "size": float(wanted[0].abs().max()), "sent": sum(sent)}
    gathered = [None] * world
    dist.all_gather_object(gathered, found)
    if rank == 0:
        torch.save(gathered, out)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4])
