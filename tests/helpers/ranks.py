"""Start a worker script as several processes that know each other, and compare what they found."""

import subprocess

import torch
from ports import free_port
from warm_python import python_with_package


def launch(world, out, worker):
    port = free_port()
    command = [python_with_package(), str(worker)]
    ranks = [subprocess.Popen([*command, str(rank), str(world), str(port), str(out)]) for rank in range(world)]
    assert [rank.wait(timeout=600) for rank in ranks] == [0] * world
    return torch.load(out, weights_only=True)


def relative_error(ours, reference):
    """Norm of the difference over the norm, of all tensors as one vector."""
    assert ours.keys() == reference.keys()
    a, b = (torch.cat([tensors[name].flatten() for name in sorted(tensors)]) for tensors in (ours, reference))
    return ((a - b).norm() / b.norm()).item()
