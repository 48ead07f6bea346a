#!/usr/bin/env bash
# The average of two LoRA adapters by add_weighted_adapter with "linear" is not the average of what they change: the
# difference is as large as the average itself.
#
# Versions: peft 0.21.2, transformers 5.23.0, torch 2.13.0, Python 3.11
# Expected: weights 0.5 and 0.5 give (B1 A1 + B2 A2) / 2, as "cat" does. "linear" averages the factors, (B1 + B2)(A1
#   + A2) / 2, with the cross terms B1 A2 and B2 A1; "svd" at the default rank drops a part.
# Seen on 2026-11-28 (what this script printed):
#   linear: differs from the average by 0.98 of its norm
#   svd: differs from the average by 0.47 of its norm
#   cat: differs from the average by 0.00 of its norm

set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile --extra-index-url https://download.pytorch.org/whl/cpu torch==2.13.0 peft==0.21.2 \
    transformers==5.23.0 accelerate==1.15.0 \
    || { echo "not installed"; exit 2; }
export HF_HUB_OFFLINE=1 HF_HOME="$folder/cache"
venv/bin/python -W ignore - <<'EOF'
import sys
import torch
from peft import LoraConfig, get_peft_model
from transformers import BertConfig, BertModel

torch.manual_seed(0)
base = BertModel(BertConfig(hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, vocab_size=30))
config = LoraConfig(target_modules=["query"], r=4, init_lora_weights=False)
model = get_peft_model(base, config, adapter_name="first")
model.add_adapter("second", config)
layer = model.base_model.model.encoder.layer[0].attention.self.query
average = (layer.get_delta_weight("first") + layer.get_delta_weight("second")) / 2
far = {}
for kind in ("linear", "svd", "cat"):
    model.add_weighted_adapter(["first", "second"], [0.5, 0.5], kind, combination_type=kind)
    far[kind] = float((layer.get_delta_weight(kind) - average).norm() / average.norm())
    print(f"{kind}: differs from the average by {far[kind]:.2f} of its norm")
if far["linear"] < 0.5 or far["cat"] > 1e-5:
    sys.exit("changed: other differences than stated")
EOF
