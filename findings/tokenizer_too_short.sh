#!/usr/bin/env bash
# A tokenizer that is asked to truncate to fewer tokens than its special tokens does not truncate at all.
#
# Versions: transformers 5.23.0, tokenizers 0.23.3, Python 3.11
# Expected: truncation=True with max_length=1 gives at most one token, or an error. With two special tokens, a length of
#   2 gives those two alone; a length of 1 gives the whole text, without a warning. So a max_length that is found by
#   halving, or by mistake, makes batches longer than the model has positions.
# Seen on 2026-11-30 (what this script printed: the numbers of tokens of a text of nine words):
#   max_length 4: 4
#   max_length 3: 3
#   max_length 2: 2
#   max_length 1: 11

set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile transformers==5.23.0 tokenizers==0.23.3 || { echo "not installed"; exit 2; }
export HF_HUB_OFFLINE=1 HF_HOME="$folder/cache"
venv/bin/python -W ignore - 2>errors.txt <<'EOF' || { tail -3 errors.txt; exit 1; }
import sys
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

words = {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "cat": 3}
tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
ends = [("[CLS]", 1), ("[SEP]", 2)]
tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]")
lengths = {length: len(fast("cat " * 9, truncation=True, max_length=length)["input_ids"]) for length in (4, 3, 2, 1)}
for length, tokens in lengths.items():
    print(f"max_length {length}: {tokens}")
if lengths != {4: 4, 3: 3, 2: 2, 1: 11}:
    sys.exit("changed: other numbers of tokens than stated")
EOF
