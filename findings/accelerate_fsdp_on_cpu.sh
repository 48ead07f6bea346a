#!/usr/bin/env bash
# accelerate drops FSDP on a CPU without a line: the settings of the environment, and a plugin that is given.
#
# Versions: accelerate 1.15.0, torch 2.13.0, Python 3.11
# Expected: a sharded model (torch shards on a CPU over gloo), or an error. AcceleratorState looks at FSDP for types of
#   GPUs alone; two processes train as plain DistributedDataParallel, each with all weights and optimizer states.
# Seen on 2026-11-28 (what this script printed):
#   by accelerate: DistributedType.MULTI_CPU DistributedDataParallel Tensor
#   by torch: FSDPSequential DTensor

set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile --extra-index-url https://download.pytorch.org/whl/cpu torch==2.13.0 accelerate==1.15.0 \
    || { echo "not installed"; exit 2; }
export HF_HUB_OFFLINE=1 HF_HOME="$folder/cache"
cat > train.py <<'EOF'
import sys, warnings
import torch
from accelerate import Accelerator, FullyShardedDataParallelPlugin

warnings.simplefilter("ignore")
plugin = FullyShardedDataParallelPlugin(fsdp_version=2)
accelerator = Accelerator(cpu=True, fsdp_plugin=plugin)
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 8))
prepared = accelerator.prepare_model(model)
kinds = {type(weight.data).__name__ for weight in prepared.parameters()}
if accelerator.is_main_process:
    print("by accelerate:", accelerator.distributed_type, type(prepared).__name__, *kinds)
sharded = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 8))
torch.distributed.fsdp.fully_shard(sharded, mesh=torch.distributed.device_mesh.init_device_mesh("cpu", (2,)))
own = {type(weight.data).__name__ for weight in sharded.parameters()}
if accelerator.is_main_process:
    print("by torch:", type(sharded).__name__, *own)
accelerator.end_training()
if kinds != {"Tensor"} or own != {"DTensor"}:
    sys.exit("changed: other kinds of weights than stated")
EOF
export ACCELERATE_USE_FSDP=true FSDP_VERSION=2 FSDP_AUTO_WRAP_POLICY=NO_WRAP OMP_NUM_THREADS=1
venv/bin/torchrun --standalone --nproc-per-node 2 train.py 2>&1
