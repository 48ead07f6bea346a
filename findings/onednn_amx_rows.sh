#!/usr/bin/env bash
# On a processor with AMX, a row of a bfloat16 product gets other bits among 40 to some hundred rows than alone.
#
# Versions: torch 2.13.0, numpy 2.4.6, Python 3.11; oneDNN of torch, on an Intel Xeon 6/207, one thread
# Expected: torch's products in bfloat16 sum in float32, whatever the number of rows, and on AVX512-BF16 without AMX a row
#   has the same bits in any of them. With AMX one number in ten thousand differs among 64 or 256 rows, where the inner
#   dimension is 640 or more, and not among 16 or 1,100: the sum over that dimension is cut in parts only there. So one
#   text has other vectors in batches of other sizes. ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 makes them equal.
# Seen on 2026-11-29 (what this script printed):
#   AMX: numbers that differ from those among 1,100 rows, by rows: {1: 0, 16: 0, 32: 0, 64: 4, 256: 10}
#   AVX512_CORE_BF16: numbers that differ from those among 1,100 rows, by rows: {1: 0, 16: 0, 32: 0, 64: 0, 256: 0}

set -eu
grep -q amx_bf16 /proc/cpuinfo || { echo "not run: this processor has no AMX"; exit 0; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile --extra-index-url https://download.pytorch.org/whl/cpu torch==2.13.0 numpy==2.4.6 \
    || { echo "not installed"; exit 2; }
cat > rows.py <<'EOF'
import os
import sys
import torch

torch.set_num_threads(1)
torch.manual_seed(0)
layer, x = torch.nn.Linear(1536, 384).bfloat16(), torch.randn(1100, 1536).bfloat16()
with torch.inference_mode():
    whole = layer(x)
    differ = {rows: int((layer(x[:rows]) != whole[:rows]).sum()) for rows in (1, 16, 32, 64, 256)}
print(os.environ.get("ONEDNN_MAX_CPU_ISA", "AMX") + ": numbers that differ from those among 1,100 rows, by rows:", differ)
amx = "ONEDNN_MAX_CPU_ISA" not in os.environ
as_stated = (differ[16] == 0 and differ[64] > 0) if amx else not any(differ.values())
sys.exit(0 if as_stated else "changed: not as stated above")
EOF
venv/bin/python -W ignore rows.py
ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 venv/bin/python -W ignore rows.py
