#!/usr/bin/env bash
# torch.export fixes the batch size of a model that calls len() on a tensor, unless strict=True, which keeps it free.
#
# Versions: torch 2.13.0 (CPU), Python 3.11
# Expected: len(states) and states.shape[0] are the same number, and both stay free with Dim.DYNAMIC, in both modes.
#   Python makes an int of what __len__ returns. Tracing without strict, the default, runs that Python, and its export
#   is refused for the batch of the example; strict reads the bytecode and keeps the symbol. torch.onnx.export tries one
#   after the other, so pooling by states[arange(len(states)), first] can be exported in models that strict can trace
#   (BERT), and not in others (XLM-RoBERTa and ELECTRA of transformers 5.23).
# Seen on 2026-12-01 (what this script printed):
#   len(states), strict=False: refused, the batch is 2
#   len(states), strict=True: any batch
#   states.shape[0], strict=False: any batch
#   states.shape[0], strict=True: any batch

set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile --extra-index-url https://download.pytorch.org/whl/cpu \
    torch==2.13.0 numpy==2.4.6 || { echo "not installed"; exit 2; }
export CUDA_VISIBLE_DEVICES=
venv/bin/python -W ignore - 2>errors.txt <<'EOF' || { tail -3 errors.txt; exit 1; }
import sys
import torch


class First(torch.nn.Module):
    """The states of the first real token of each row."""

    def __init__(self, count):
        super().__init__()
        self.count = count

    def forward(self, states, mask):
        return states[torch.arange(self.count(states)), mask.argmax(1)]


rows = {"states": torch.randn(2, 7, 4), "mask": torch.ones(2, 7, dtype=torch.long)}
free = {name: {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC} for name in rows}
seen = []
for name, count in (("len(states)", len), ("states.shape[0]", lambda states: states.shape[0])):
    for strict in (False, True):
        try:
            program = torch.export.export(First(count), (), kwargs=rows, dynamic_shapes=free, strict=strict)
            program.module()(states=torch.randn(5, 3, 4), mask=torch.ones(5, 3, dtype=torch.long))
            seen.append("any batch")
        except Exception as error:
            seen.append("refused, the batch is 2" if "specialized" in str(error) or "static" in str(error) else repr(error))
        print(f"{name}, strict={strict}: {seen[-1]}")
sys.exit(seen != ["refused, the batch is 2", *["any batch"] * 3])
EOF
