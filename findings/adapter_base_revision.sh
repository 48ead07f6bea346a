#!/usr/bin/env bash
# AutoModel opens an adapter on another revision of its base than the adapter records.
#
# Versions: transformers 5.23.0, peft 0.21.2, torch 2.13.0, Python 3.11
# Expected: the outputs that the adapter was saved with. adapter_config.json records the commit of the base, and
#   AutoPeftModel opens that commit. AutoModel, and so sentence-transformers, opens the main branch: once the base was
#   updated, the adapter is added to weights that it was not trained on, without a line.
# Seen on 2026-11-30 (what this script printed):
#   adapter_config.json: base someone/base, revision 1111111
#   AutoPeftModel and the adapter that was saved differ by 0.0
#   AutoModel and the adapter that was saved differ by 2.8

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
import json
import os
import sys
from pathlib import Path

import torch
from peft import AutoPeftModelForFeatureExtraction, LoraConfig, get_peft_model
from transformers import AutoModel, BertConfig, BertModel
from transformers.utils import logging

logging.set_verbosity_error()
logging.disable_progress_bar()
sizes = dict(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, vocab_size=30)

# A cache of the Hub with two commits of a base; its main branch is the second.
cached, (first, second) = Path(os.environ["HF_HOME"], "hub", "models--someone--base"), ("1" * 40, "2" * 40)
for seed, commit in enumerate((first, second)):
    torch.manual_seed(seed)
    BertModel(BertConfig(**sizes)).save_pretrained(cached / "snapshots" / commit)
(cached / "refs").mkdir()
(cached / "refs" / "main").write_text(second)

lora = LoraConfig(target_modules=["query", "value"], revision=first)
adapted = get_peft_model(AutoModel.from_pretrained("someone/base", revision=first), lora).eval()
adapted.save_pretrained("adapter")
recorded = json.loads(Path("adapter", "adapter_config.json").read_text())
print(f"adapter_config.json: base {recorded['base_model_name_or_path']}, revision {recorded['revision'][:7]}")

ids, apart = torch.tensor([[1, 2, 3]]), []
for opener in (AutoPeftModelForFeatureExtraction, AutoModel):
    with torch.no_grad():
        outputs = [model(ids).last_hidden_state for model in (opener.from_pretrained("adapter").eval(), adapted)]
    apart.append(float((outputs[0] - outputs[1]).abs().max()))
    name = opener.__name__.removesuffix("ForFeatureExtraction")
    print(f"{name} and the adapter that was saved differ by {apart[-1]:.1f}")
if apart[0] > 1e-5 or apart[1] < 0.1:
    sys.exit("changed: other differences than stated")
EOF
