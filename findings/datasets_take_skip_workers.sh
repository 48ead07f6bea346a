#!/usr/bin/env bash
# Rows of take(10) are also in skip(10), if a DataLoader reads the one in its own process and the other in workers.
#
# Versions: datasets 5.2.0, torch 2.13.0, Python 3.11
# Expected: ten rows held out, and the others trained. With workers, each takes or skips its share of its own
#   shards, so that the place of the cut depends on num_workers: the usual validation without workers has rows 0 to 9,
#   of which training with two workers reads half, and others are in neither.
# Seen on 2026-11-28 (what this script printed):
#   0 workers: 90 rows are trained, of them held out: [], in neither: []
#   2 workers: 90 rows are trained, of them held out: [5, 6, 7, 8, 9], in neither: [25, 26, 27, 28, 29]
#   4 workers: 90 rows are trained, of them held out: [3, 4, 5, 6, 7, 8, 9], in neither: [25, 26, 27, 50, 51, 75, 76]

set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile --extra-index-url https://download.pytorch.org/whl/cpu torch==2.13.0 datasets==5.2.0 \
    || { echo "not installed"; exit 2; }
export HF_HUB_OFFLINE=1 HF_HOME="$folder/cache"
venv/bin/python -W ignore - <<'EOF'
import sys
import datasets
from torch.utils.data import DataLoader

rows = datasets.Dataset.from_dict({"n": list(range(100))}).to_iterable_dataset(num_shards=4)


def read(part, workers):
    return {int(n) for batch in DataLoader(part, batch_size=5, num_workers=workers) for n in batch["n"]}


held_out = read(rows.take(10), 0)
both = {}
for workers in (0, 2, 4):
    train = read(rows.skip(10), workers)
    both[workers] = sorted(held_out & train)
    print(f"{workers} workers: {len(train)} rows are trained, of them held out: {both[workers]}, in neither:",
          sorted({*range(100)} - held_out - train))
if both != {0: [], 2: [5, 6, 7, 8, 9], 4: [3, 4, 5, 6, 7, 8, 9]}:
    sys.exit("changed: other rows are in both than stated")
EOF
