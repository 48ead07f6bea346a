#!/usr/bin/env bash
# AutoTokenizer ignores tokenizer_class, and the contents of tokenizer.json, where config.json says model_type
# qwen2.
#
# Versions: transformers 5.23.0, tokenizers 0.23.3, Python 3.11
# Expected: the tokenizer that was saved: its tokenizer_config.json names TokenizersBackend or
#   PreTrainedTokenizerFast. With model_type bert it opens; with qwen2 a BPE without its words takes its place,
#   without an error.
# Seen on 2026-11-28 (what this script printed):
#   saved as: TokenizersBackend
#   model_type bert: TokenizersBackend, WordLevel
#   model_type qwen2: Qwen2Tokenizer, BPE

set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile transformers==5.23.0 tokenizers==0.23.3 \
    || { echo "not installed"; exit 2; }
export HF_HUB_OFFLINE=1 HF_HOME="$folder/cache"
venv/bin/python -W ignore - <<'EOF'
import json, sys
from tokenizers import Tokenizer, models
from transformers import AutoTokenizer, PreTrainedTokenizerFast

backend = Tokenizer(models.WordLevel({"a": 0, "?": 1}, unk_token="?"))
PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="?").save_pretrained("saved")
print("saved as:", json.load(open("saved/tokenizer_config.json"))["tokenizer_class"])
kinds = {}
for model_type in ("bert", "qwen2"):
    with open("saved/config.json", "w") as file:
        json.dump({"model_type": model_type}, file)
    opened = AutoTokenizer.from_pretrained("saved")
    kinds[model_type] = type(opened.backend_tokenizer.model).__name__
    print(f"model_type {model_type}: {type(opened).__name__}, {kinds[model_type]}")
if kinds["bert"] != "WordLevel" or kinds["qwen2"] == "WordLevel":
    sys.exit("changed: other tokenizers than stated")
EOF
