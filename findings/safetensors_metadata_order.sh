#!/usr/bin/env bash
# safetensors writes the same tensors with the same metadata as different files, if the metadata have several keys.
#
# Versions: safetensors 0.8.0, torch 2.13.0 (CPU), Python 3.11
# Expected: equal tensors and metadata make equal bytes, as they do with the one key that most programs write
#   ({"format": "pt"}). Names of tensors are sorted, keys of metadata are not: their order changes from call to call, in
#   one process. So a SHA-256, such as that by which the Hub knows a large file, calls the same weights others, and a
#   commit or a copy of them is made again.
# Seen on 2026-12-01 (what this script printed, of 200 calls each):
#   one key: 1 file
#   two keys: several files
#   two keys: one size, equal tensors and metadata

set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile --extra-index-url https://download.pytorch.org/whl/cpu \
    safetensors==0.8.0 torch==2.13.0 numpy==2.4.6 || { echo "not installed"; exit 2; }
export CUDA_VISIBLE_DEVICES=
venv/bin/python -W ignore - 2>errors.txt <<'EOF' || { tail -3 errors.txt; exit 1; }
import hashlib
import sys
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

tensors = {"a": torch.arange(4.0), "b": torch.zeros(2, 2)}
path, files = Path("weights.safetensors"), {}
for words, notes in (("one key", {"format": "pt"}), ("two keys", {"format": "pt", "base": "x"})):
    made = {}
    for _ in range(200):
        save_file(tensors, path, metadata=notes)
        content = path.read_bytes()
        made[hashlib.sha256(content).hexdigest()] = content
    files[words] = list(made.values())
    print(f"{words}: {'1 file' if len(made) == 1 else 'several files'}")
equal = len({len(content) for content in files["two keys"]}) == 1
for content in files["two keys"]:
    path.write_bytes(content)
    equal &= all(torch.equal(tensors[name], tensor) for name, tensor in load_file(path).items())
    with safe_open(path, "pt") as file:
        equal &= file.metadata() == {"format": "pt", "base": "x"}
print(f"two keys: one size, {'equal' if equal else 'other'} tensors and metadata")
sys.exit(not (len(files["one key"]) == 1 < len(files["two keys"]) and equal))
EOF
