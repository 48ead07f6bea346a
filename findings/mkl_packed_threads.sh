#!/usr/bin/env bash
# A weight that torch's operator of MKL packs for products in float32 gives other numbers if more threads have packed it,
# on a processor with AVX2; how many threads compute the product changes nothing.
#
# Versions: torch 2.13.0, numpy 2.4.6, Python 3.11; MKL of torch kept to AVX2, on an Intel Xeon 6/167
# Expected: packing copies the weight into another order, so the product depends on the weight alone. But the packed copy
#   is cut at other columns by other numbers of threads, and columns at a cut that is no multiple of the width of MKL's
#   kernel are summed in another way. So one program has other vectors on a machine with other cores; products of
#   1,024 columns differ if two threads have packed them, those of 1,152 do not. With AVX-512 none differ.
# Seen on 2026-11-30 (what this script printed):
#   AVX2: rows of 40 that differ from those packed by one thread: {'1024: 2 packed, 1 computes': 40,
#     '1024: 1 packed, 2 compute': 0, '1152: 2 packed, 1 computes': 0}

set -eu
grep -q avx2 /proc/cpuinfo || { echo "not run: this processor has no AVX2"; exit 0; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile --extra-index-url https://download.pytorch.org/whl/cpu torch==2.13.0 numpy==2.4.6 \
    || { echo "not installed"; exit 2; }
MKL_ENABLE_INSTRUCTIONS=AVX2 venv/bin/python -W ignore - <<'EOF'
import sys
import torch

torch.manual_seed(0)


def product(weight, x, packing, computing):
    torch.set_num_threads(packing)
    packed = torch.ops.mkl._mkl_reorder_linear_weight(weight, 256)
    torch.set_num_threads(computing)
    return torch.ops.mkl._mkl_linear(x, packed, weight, None, len(x))


differing = {}
with torch.inference_mode():
    for columns in (1024, 1152):
        weight, x = torch.randn(columns, 1024), torch.randn(40, 1024)
        alone = product(weight, x, 1, 1)
        for packing, computing in ((2, 1), (1, 2)):
            name = f"{columns}: {packing} packed, {computing} compute{'s' * (computing == 1)}"
            differing[name] = int((product(weight, x, packing, computing) != alone).any(1).sum())
print("AVX2: rows of 40 that differ from those packed by one thread:", differing)
if not differing["1024: 2 packed, 1 computes"] or any(differing[name] for name in differing if name[:6] != "1024: " or "1 packed" in name):
    sys.exit("changed: other products differ")
EOF
