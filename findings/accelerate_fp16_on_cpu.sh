#!/usr/bin/env bash
# accelerate computes in float32 on a CPU where float16 is asked for, and says that it computes in float16.
#
# Versions: accelerate 1.15.0, torch 2.13.0, Python 3.11
# Expected: float16 under autocast, which torch has for CPUs, or an error. Accelerator turns autocast on for a device that
#   is no CPU, and leaves the gradient scaler out, without a warning; its mixed_precision stays "fp16". A Trainer with
#   fp16=True and use_cpu=True trains so too. With "bf16", products are computed in bfloat16, as asked.
# Seen on 2026-11-30 (what this script printed):
#   by torch: torch.float16
#   fp16: mixed_precision fp16, native_amp False, scaler None, computes torch.float32, 0 warnings
#   bf16: mixed_precision bf16, native_amp True, scaler None, computes torch.bfloat16, 0 warnings

set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile --extra-index-url https://download.pytorch.org/whl/cpu torch==2.13.0 \
    accelerate==1.15.0 numpy==2.4.6 || { echo "not installed"; exit 2; }
export HF_HUB_OFFLINE=1 HF_HOME="$folder/cache" CUDA_VISIBLE_DEVICES= OMP_NUM_THREADS=1
venv/bin/python - 2>errors.txt <<'END' || { tail -3 errors.txt; exit 1; }
import sys
import warnings

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState

layer, x = torch.nn.Linear(4, 4), torch.ones(1, 4)
with torch.autocast("cpu", torch.float16):
    of_torch = layer(x).dtype
print("by torch:", of_torch)
computed = {}
for asked in ("fp16", "bf16"):
    AcceleratorState._reset_state(reset_partial_state=True)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        accelerator = Accelerator(mixed_precision=asked, cpu=True)
        with accelerator.autocast():
            computed[asked] = layer(x).dtype
    print(f"{asked}: mixed_precision {accelerator.mixed_precision}, native_amp {accelerator.native_amp}, "
          f"scaler {accelerator.scaler}, computes {computed[asked]}, {len(said)} warnings")
    if said or accelerator.mixed_precision != asked:
        sys.exit("changed: accelerate warns, or names another precision")
if of_torch != torch.float16 or computed != {"fp16": torch.float32, "bf16": torch.bfloat16}:
    sys.exit("changed: other precisions than stated")
END
