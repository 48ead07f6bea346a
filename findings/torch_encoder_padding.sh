#!/usr/bin/env bash
# torch's TransformerEncoder gives zeros for padding under no_grad, and other numbers with gradients, in evaluation mode too.
#
# Versions: torch 2.13.0, Python 3.11
# Expected: a module in evaluation mode returns the same states with and without gradients, up to rounding. Without them
#   it unpads the rows (its fast path, on by default), and fills up with zeros. The states of real tokens are equal. So a
#   maximum over all positions, or a mean that divides by the width, is another vector in a loss than in a search, though
#   neither looks at the mask; an encoder must pool with the mask.
# Seen on 2026-11-30 (what this script printed):
#   real tokens: at most 0.000 apart
#   first number of padding: with gradients 0.280, without 0.000
#   maximum over all positions: up to 2.110 apart

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

torch.manual_seed(0)
layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0)
encoder = torch.nn.TransformerEncoder(layer, 2).eval()
rows, padding = torch.randn(2, 6, 8), torch.tensor([[0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 1, 1]]).bool()
with_gradients = encoder(rows, src_key_padding_mask=padding).detach()
with torch.no_grad():
    without = encoder(rows, src_key_padding_mask=padding)
real = (with_gradients - without)[~padding].abs().max().item()
first, other = with_gradients[1, 2, 0].item(), without[1, 2, 0].item()
pooled = (with_gradients.amax(1) - without.amax(1)).abs().max().item()
print(f"real tokens: at most {real:.3f} apart")
print(f"first number of padding: with gradients {first:.3f}, without {other:.3f}")
print(f"maximum over all positions: up to {pooled:.3f} apart")
if not (real < 1e-5 and abs(first) > 0.01 and without[padding].abs().max() == 0 and pooled > 0.01):
    sys.exit("changed: other states than stated")
EOF
