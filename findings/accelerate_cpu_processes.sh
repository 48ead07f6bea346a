#!/usr/bin/env bash
# accelerate launch --cpu --num_processes 2 starts one process, without a word.
#
# Versions: accelerate 1.15.0, torch 2.13.0, numpy 2.4.6, Python 3.11
# Expected: two processes over gloo, or a line that says what is missing. The flags name no other number, and the same
#   machine starts two with a config file that says use_cpu and, of all things, MULTI_GPU.
# Seen on 2026-11-29 (what this script printed):
#   --cpu --num_processes 2: 1 process
#   MULTI_GPU with use_cpu in a config file: 2 processes

set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile --extra-index-url https://download.pytorch.org/whl/cpu torch==2.13.0 \
    accelerate==1.15.0 numpy==2.4.6 || { echo "not installed"; exit 2; }
cat > count.py <<'EOF'
from accelerate import Accelerator

accelerator = Accelerator(cpu=True)
accelerator.print(accelerator.num_processes)
EOF
cat > two.yaml <<'EOF'
compute_environment: LOCAL_MACHINE
distributed_type: MULTI_GPU
use_cpu: true
num_machines: 1
num_processes: 2
machine_rank: 0
main_process_port: 0
mixed_precision: "no"
EOF
by_flags=$(venv/bin/accelerate launch --cpu --num_processes 2 --num_machines 1 --mixed_precision no --dynamo_backend no count.py)
by_file=$(venv/bin/accelerate launch --config_file two.yaml count.py 2>/dev/null)
echo "--cpu --num_processes 2: $by_flags process"
echo "MULTI_GPU with use_cpu in a config file: $by_file processes"
[ "$by_flags" = 1 ] && [ "$by_file" = 2 ] || { echo "changed: not as stated above"; exit 1; }
