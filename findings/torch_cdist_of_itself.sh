#!/usr/bin/env bash
# The Euclidean distance of a vector from itself is 0 in torch.cdist of 25 rows, and not in one of 26.
#
# Versions: torch 2.13.0, sentence-transformers 6.2.0, transformers 5.23.0, Python 3.11
# Expected: 0. Above 25 rows cdist multiplies matrices, |x|^2 + |y|^2 - 2xy, and what is left of it is as large as
#   the distance of near copies. util.euclidean_sim of sentence-transformers, and with it every Euclidean search and
#   evaluation, calls it; pairwise_euclidean_sim subtracts.
# Seen on 2026-11-28 (what this script printed):
#   25 rows: from itself 0.000, from a copy at 0.020: 0.020 to 0.020
#   26 rows: from itself 0.088, from a copy at 0.020: 0.000 to 0.088
#   pairwise_euclidean_sim: 0.0

set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile --extra-index-url https://download.pytorch.org/whl/cpu torch==2.13.0 sentence-transformers==6.2.0 transformers==5.23.0 \
    || { echo "not installed"; exit 2; }
export HF_HUB_OFFLINE=1 HF_HOME="$folder/cache"
venv/bin/python -W ignore - <<'EOF'
import sys
import torch
from sentence_transformers import util

rows = torch.randn(26, 384, generator=torch.Generator().manual_seed(0)) + 5
copy = rows + 0.001
seen = {}
for count in (25, 26):
    seen[count] = float(util.euclidean_sim(rows[:count], rows[:count]).diag().abs().max())
    near = util.euclidean_sim(rows[:count], copy[:count]).diag().abs()
    print(f"{count} rows: from itself {seen[count]:.3f}, from a copy at 0.020: {near.min():.3f} to {near.max():.3f}")
print("pairwise_euclidean_sim:", float(util.pairwise_euclidean_sim(rows, rows).abs().max()))
if seen[25] != 0 or seen[26] < 0.02:
    sys.exit("changed: other distances than stated")
EOF
