#!/usr/bin/env bash
# safetensors.numpy saves a transposed or strided array with its values in another order, without an error.
#
# Versions: safetensors 0.8.0, numpy 2.4.6, Python 3.11.7
# Expected: the same array after save and load, or an error, as safetensors.torch gives for tensors that are not
#   contiguous. numpy.ascontiguousarray before saving repairs it.
# Seen on 2026-11-28 (what this script printed):
#   transposed: [[0, 3], [1, 4], [2, 5]] comes back as [[0, 1], [2, 3], [4, 5]]
#   every second: [0, 2, 4] comes back as [0, 1, 2]

set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet safetensors==0.8.0 numpy==2.4.6 || { echo "not installed"; exit 2; }
export HF_HUB_OFFLINE=1 HF_HOME="$folder/cache"
venv/bin/python -W ignore - <<'EOF'
import sys
import numpy
from safetensors.numpy import load, save

seen = {}
for name, array in (("transposed", numpy.arange(6).reshape(2, 3).T), ("every second", numpy.arange(6)[::2])):
    seen[name] = load(save({"x": array}))["x"].tolist()
    print(f"{name}: {array.tolist()} comes back as {seen[name]}")
    whole = load(save({"x": numpy.ascontiguousarray(array)}))["x"]
    assert numpy.array_equal(whole, array)
if seen != {"transposed": [[0, 1], [2, 3], [4, 5]], "every second": [0, 1, 2]}:
    sys.exit("changed: other values than stated")
EOF
