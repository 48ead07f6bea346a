#!/usr/bin/env bash
# model2vec reads a text to a number of characters, which may end long before max_length tokens.
#
# Versions: model2vec 0.10.0, tokenizers 0.23.3, numpy 2.4.6, Python 3.11
# Expected: 512 tokens are read. encode first cuts to max_length times the median length of a word of the
#   vocabulary, in characters, blanks included. A vocabulary of short pieces with texts of long words, or of many
#   blanks, reads a part; encode_as_sequence reads all of it, whatever max_length the model has.
# Seen on 2026-11-28 (what this script printed):
#   max_length: 512 tokens of the text: 200
#   share of cat and of the long word: [0.0, 1.0]
#   without max_length: [0.5, 0.5]
#   as a sequence: [0.5, 0.5]
#   cat after 2,000 blanks: [0.0, 0.0, 0.0, 0.0, 0.0, 0.0]

set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile model2vec==0.10.0 tokenizers==0.23.3 numpy==2.4.6 \
    || { echo "not installed"; exit 2; }
export HF_HUB_OFFLINE=1 HF_HOME="$folder/cache"
venv/bin/python -W ignore - <<'EOF'
import sys
import numpy
from model2vec import StaticModel
from tokenizers import Tokenizer, models, pre_tokenizers

words = ["[UNK]", "a", "of", "to", "cat", "internationalization"]
tokenizer = Tokenizer(models.WordLevel({word: n for n, word in enumerate(words)}, unk_token="[UNK]"))
tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
model = StaticModel(numpy.eye(6, dtype=numpy.float32), tokenizer)
text = "internationalization " * 100 + "cat " * 100
print("max_length:", model.max_length, "tokens of the text:", len(model.tokenize([text])[0]))
print("share of cat and of the long word:", model.encode(text)[4:].round(2).tolist())
print("without max_length:", model.encode(text, max_length=None)[4:].round(2).tolist())
print("as a sequence:", model.encode_as_sequence(text).mean(0)[4:].round(2).tolist())
blanks = model.encode(" " * 2000 + "cat")
print("cat after 2,000 blanks:", blanks.tolist())
if model.encode(text)[4] > 0.1 or model.encode(text, max_length=None)[4] != 0.5 or blanks.any():
    sys.exit("changed: other parts of the text are read than stated")
EOF
