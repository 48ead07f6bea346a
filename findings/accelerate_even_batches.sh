#!/usr/bin/env bash
# Two processes of accelerate train some rows twice in each epoch: the last batches are filled up with the first rows.
#
# Versions: accelerate 1.15.0, torch 2.13.0, Python 3.11
# Expected: an epoch reads every row once, as one process with the same total batch does; its last batch is smaller. With
#   two processes, batches of 4 and 43 rows, each process gets 6 batches of 4: 48 rows, five of them for the second time
#   (accelerate's default, even_batches=True, also in the Trainer with dataloader_drop_last=False). In a loss over
#   in-batch negatives, these five are negatives too, which one process does not have. With even_batches=False no row is
#   repeated, but one process has a batch less than the other, and a gather in the loss waits for it without end.
# Seen on 2026-11-30 (what this script printed):
#   one process: 43 rows in batches of 8, last batch [40, 41, 42]
#   even_batches=True: 24 and 24 rows, last batches [40, 41, 42, 0] and [1, 2, 3, 4]
#   even_batches=False: 23 and 20 rows, 6 and 5 batches

set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile --extra-index-url https://download.pytorch.org/whl/cpu torch==2.13.0 \
    accelerate==1.15.0 numpy==2.4.6 || { echo "not installed"; exit 2; }
export HF_HUB_OFFLINE=1 HF_HOME="$folder/cache" CUDA_VISIBLE_DEVICES=
venv/bin/python -W ignore - 2>errors.txt <<'EOF' || { tail -3 errors.txt; exit 1; }
import sys
from accelerate.data_loader import BatchSamplerShard
from torch.utils.data import BatchSampler, SequentialSampler


def batches(process, even):
    sampler = BatchSampler(SequentialSampler(range(43)), batch_size=4, drop_last=False)
    return list(BatchSamplerShard(sampler, num_processes=2, process_index=process, even_batches=even))


whole = list(BatchSampler(SequentialSampler(range(43)), batch_size=8, drop_last=False))
print(f"one process: {sum(map(len, whole))} rows in batches of 8, last batch {whole[-1]}")
first, second = batches(0, True), batches(1, True)
print(f"even_batches=True: {sum(map(len, first))} and {sum(map(len, second))} rows, last batches {first[-1]} and {second[-1]}")
shorter, shortest = batches(0, False), batches(1, False)
print(f"even_batches=False: {sum(map(len, shorter))} and {sum(map(len, shortest))} rows, "
      f"{len(shorter)} and {len(shortest)} batches")
repeated = sum(map(len, first + second)) - 43
if repeated != 5 or (len(shorter), len(shortest)) != (6, 5):
    sys.exit("changed: other rows than stated")
EOF
