#!/usr/bin/env bash
# add_adapter of transformers 5.24 refuses the newest peft, 0.21.2, and asks for a release that does not exist.
#
# Versions: transformers 5.24.0 and peft 0.21.2 (the newest of both on the day), torch 2.13.0, Python 3.11
# Expected: an adapter, as with transformers 5.23.0, or a limit in the requirements of the package, so that pip says
#   it. peft's own inject_adapter_in_model works on the same model.
# Seen on 2026-11-28 (what this script printed):
#   add_adapter: The version of PEFT you are using is not compatible, please use a version >= 0.22.0
#   inject_adapter_in_model: 2 weights of an adapter

set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile --extra-index-url https://download.pytorch.org/whl/cpu torch==2.13.0 peft==0.21.2 \
    transformers==5.24.0 accelerate==1.15.0 \
    || { echo "not installed"; exit 2; }
export HF_HUB_OFFLINE=1 HF_HOME="$folder/cache"
venv/bin/python -W ignore - <<'EOF'
import sys
from peft import LoraConfig, inject_adapter_in_model
from transformers import BertConfig, BertModel

sizes = dict(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, vocab_size=30)
config = LoraConfig(target_modules=["query"])
try:
    BertModel(BertConfig(**sizes)).add_adapter(config)
    error = ""
except (ImportError, ValueError) as raised:
    error = str(raised)
print("add_adapter:", error or "an adapter")
model = inject_adapter_in_model(config, BertModel(BertConfig(**sizes)), "default")
print("inject_adapter_in_model:", sum("lora" in name for name, _ in model.named_parameters()), "weights of an adapter")
if "version" not in error:
    sys.exit("changed: add_adapter works, or fails otherwise")
EOF
