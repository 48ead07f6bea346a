#!/usr/bin/env bash
# The gradient of torch's normalize at a zero vector is 1 / eps, 1e12: with clipping, the others of its batch learn nothing.
#
# Versions: torch 2.13.0, Python 3.11
# Expected: a zero vector stays zero, so its gradient is 0, or NaN, which would be seen. The norm of a zero vector has the
#   gradient 0 in torch, but normalize divides by max(norm, eps). So one zero vector in a batch, which a static encoder
#   gives for a text without a known token, such as an emoji, makes the norm of the gradient 1e11 and more, and
#   clip_grad_norm_ scales all gradients by its inverse. The loss is finite, and nothing is said.
# Seen on 2026-11-30 (what this script printed):
#   gradient of a zero vector: normalize 1e+12, its norm 0
#   0 of 8 anchors zero: loss 2.31, largest gradient of the others after clipping 3e-02
#   1 of 8 anchors zero: loss 2.21, largest gradient of the others after clipping 1e-14

set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile --extra-index-url https://download.pytorch.org/whl/cpu torch==2.13.0 \
    || { echo "not installed"; exit 2; }
venv/bin/python -W ignore - <<'EOF'
import sys

import torch
from torch.nn.functional import cross_entropy, normalize

zero = torch.zeros(3, requires_grad=True)
(of_normalize,) = torch.autograd.grad(normalize(zero, dim=0).sum(), zero)
(of_norm,) = torch.autograd.grad(zero.norm(), zero)
print(f"gradient of a zero vector: normalize {of_normalize[0]:.0e}, its norm {of_norm[0]:g}")

torch.manual_seed(0)
vectors, positives = torch.randn(8, 256), normalize(torch.randn(8, 256), dim=1)
largest = []
for zeros in (0, 1):
    vectors[:zeros] = 0
    rows = torch.nn.Parameter(vectors.clone())
    loss = cross_entropy(normalize(rows, dim=1) @ positives.T / 0.05, torch.arange(8))
    loss.backward()
    torch.nn.utils.clip_grad_norm_([rows], 1.0)
    largest.append(rows.grad[1:].abs().max().item())
    print(f"{zeros} of 8 anchors zero: loss {loss:.2f}, largest gradient of the others after clipping {largest[-1]:.0e}")
if not (of_normalize[0] > 9e11 and of_norm[0] == 0 and largest[0] > 1e-3 and largest[1] < 1e-12):
    sys.exit("changed: other values than stated")
EOF
