#!/usr/bin/env bash
# transformers' load_adapter leaves the trained magnitudes of a DoRA adapter out.
#
# Versions: transformers 5.23.0, peft 0.21.2, torch 2.13.0, Python 3.11
# Expected: the outputs of PeftModel.from_pretrained with the same folder, as for LoRA without DoRA. The keys end in
#   lora_magnitude_vector, load_adapter looks for lora_magnitude_vector.default.weight, and the magnitudes stay
#   those of the base.
# Seen on 2026-11-28 (what this script printed):
#   use_dora=False: load_adapter and PeftModel differ by 0.000
#   use_dora=True: load_adapter and PeftModel differ by 0.007

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
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModel, BertConfig, BertModel
from transformers.utils import logging

logging.set_verbosity_error()
logging.disable_progress_bar()
torch.manual_seed(0)
sizes = dict(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, vocab_size=30)
BertModel(BertConfig(**sizes)).save_pretrained("base")
ids = torch.tensor([[1, 2, 3]])
far = {}
for use_dora in (False, True):
    adapted = get_peft_model(AutoModel.from_pretrained("base"), LoraConfig(target_modules=["query", "value"], use_dora=use_dora))
    with torch.no_grad():
        for name, weight in adapted.named_parameters():
            if "lora" in name:
                weight.add_(torch.rand_like(weight))
    adapted.save_pretrained("adapter")
    by_peft = PeftModel.from_pretrained(AutoModel.from_pretrained("base"), "adapter").eval()
    by_transformers = AutoModel.from_pretrained("base")
    by_transformers.load_adapter("adapter")
    with torch.no_grad():
        first, second = (model.eval()(ids).last_hidden_state for model in (by_peft, by_transformers))
    far[use_dora] = float((first - second).abs().max())
    print(f"use_dora={use_dora}: load_adapter and PeftModel differ by {far[use_dora]:.3f}")
if far[False] > 1e-5 or far[True] < 1e-3:
    sys.exit("changed: other differences than stated")
EOF
