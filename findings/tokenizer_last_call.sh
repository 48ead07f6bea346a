#!/usr/bin/env bash
# save_pretrained writes the truncation and padding of the last call into tokenizer.json. transformers ignores them
# when it opens the folder; tokenizers, and what builds on it, cuts every text to them.
#
# Versions: transformers 5.23.0, tokenizers 0.23.3, Python 3.11
# Expected: arguments of one call are not saved. A tokenizer that was last called with max_length=4 cuts to 4 tokens
#   in programs that read tokenizer.json alone (model2vec, serving in other languages), and not in AutoTokenizer.
# Seen on 2026-11-28 (what this script printed):
#   last call plain: AutoTokenizer 8 tokens, tokenizers 8 tokens, a text of one word 3
#   last call max_length=4: AutoTokenizer 8 tokens, tokenizers 4 tokens, a text of one word 4

set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile transformers==5.23.0 tokenizers==0.23.3 \
    || { echo "not installed"; exit 2; }
export HF_HUB_OFFLINE=1 HF_HOME="$folder/cache"
venv/bin/python -W ignore - <<'EOF'
import sys
from tokenizers import Tokenizer
from transformers import AutoTokenizer, BertTokenizerFast

words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "cat", "dog"]
tokenizer = BertTokenizerFast(vocab={word: number for number, word in enumerate(words)})
text, seen = "cat dog cat dog cat dog", []
for name, arguments in (("plain", {}), ("max_length=4", {"truncation": True, "max_length": 4, "padding": "max_length"})):
    tokenizer(["cat"], **arguments)
    tokenizer.save_pretrained("saved")
    alone = Tokenizer.from_file("saved/tokenizer.json")
    seen.append([len(AutoTokenizer.from_pretrained("saved")(text).input_ids), len(alone.encode(text).ids), len(alone.encode("cat").ids)])
    print(f"last call {name}: AutoTokenizer {seen[-1][0]} tokens, tokenizers {seen[-1][1]} tokens, a text of one word {seen[-1][2]}")
if seen != [[8, 8, 3], [8, 4, 4]]:
    sys.exit("changed: other lengths than stated")
EOF
