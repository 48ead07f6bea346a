#!/usr/bin/env bash
# normalize and cosine_similarity of a zero vector are NaN in float16, and 0 in bfloat16 and float32.
#
# Versions: torch 2.13.0, Python 3.11
# Expected: 0 in each: eps is documented to avoid a division by zero. 1e-12 and 1e-8 are 0 in float16. An encoder in
#   half precision that gives zeros for an empty text (a static one, or a mean over no token) gives NaN after
#   normalizing, on a CPU as on a GPU.
# Seen on 2026-11-28 (what this script printed):
#   torch.float16: normalize [nan, nan, nan], cosine with ones [nan]
#   torch.bfloat16: normalize [0.0, 0.0, 0.0], cosine with ones [0.0]
#   torch.float32: normalize [0.0, 0.0, 0.0], cosine with ones [0.0]

set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile --extra-index-url https://download.pytorch.org/whl/cpu torch==2.13.0 \
    || { echo "not installed"; exit 2; }
export HF_HUB_OFFLINE=1 HF_HOME="$folder/cache"
venv/bin/python -W ignore - <<'EOF'
import sys
import torch
from torch.nn.functional import cosine_similarity, normalize

seen = {}
for dtype in (torch.float16, torch.bfloat16, torch.float32):
    zero, one = torch.zeros(1, 3, dtype=dtype), torch.ones(1, 3, dtype=dtype)
    seen[dtype] = normalize(zero)[0].tolist(), cosine_similarity(zero, one).tolist()
    print(f"{dtype}: normalize {seen[dtype][0]}, cosine with ones {seen[dtype][1]}")
if [str(value) for value in seen.values()] != ["([nan, nan, nan], [nan])"] + ["([0.0, 0.0, 0.0], [0.0])"] * 2:
    sys.exit("changed: other values than stated")
EOF
