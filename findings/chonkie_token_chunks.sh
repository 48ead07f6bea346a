#!/usr/bin/env bash
# Chunks of chonkie's TokenChunker are not pieces of the document: an uncased tokenizer gives them back in lower
# case, without the words it does not know, and start_index and end_index count these other characters.
#
# Versions: chonkie 1.7.0, tokenizers 0.23.3, Python 3.11
# Expected: document[chunk.start_index:chunk.end_index] == chunk.text, as the names say. The chunks are decoded from
#   token ids. They are what a search would store and show.
# Seen on 2026-11-28 (what this script printed):
#   chunk 'meet ann in ( 2020', document there 'Meet Ann in Oslo ('
#   chunk '). at noon.', document there '2020). At n'

set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile chonkie==1.7.0 tokenizers==0.23.3 \
    || { echo "not installed"; exit 2; }
export HF_HUB_OFFLINE=1 HF_HOME="$folder/cache"
venv/bin/python -W ignore - <<'EOF'
import sys
import chonkie
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

words = ["[UNK]", "meet", "ann", "in", "(", "2020", ")", ".", "at", "noon"]
tokenizer = Tokenizer(models.WordPiece({word: number for number, word in enumerate(words)}, unk_token="[UNK]"))
tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
tokenizer.decoder = decoders.WordPiece()
tokenizer.add_special_tokens(["[UNK]"])
document = "Meet Ann in Oslo (2020). At noon."
same = []
for chunk in chonkie.TokenChunker(tokenizer=tokenizer, chunk_size=6, chunk_overlap=0)(document):
    piece = document[chunk.start_index : chunk.end_index]
    same.append(piece == chunk.text)
    print(f"chunk {chunk.text!r}, document there {piece!r}")
if any(same):
    sys.exit("changed: chunks are pieces of the document")
EOF
