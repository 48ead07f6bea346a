#!/usr/bin/env bash
# LangChain's splitters give wrong positions (add_start_index) if they measure chunks in tokens or words.
#
# Versions: langchain-text-splitters 1.1.3, tokenizers 0.23.3, Python 3.11
# Expected: text[start_index:] begins with the chunk, as it does if chunk_size counts characters. With a length_function
#   of words or tokens, which chunks for an encoder need, the splitter still searches each chunk from a position that it
#   computes as if chunk_overlap were characters. A chunk that begins before it gets -1, and in a text with repeated
#   lines a later place, without a warning. So highlights and citations made from start_index point elsewhere.
# Seen on 2026-11-30 (what this script printed):
#   characters: [0, 64, 125, 188, 252, 313]
#   tokens: [0, -1, 105, -1, 208, -1, 308]
#   tokens, true: [0, 56, 105, 158, 208, 257, 308]
#   repeated lines, tokens: [0, 96, 192, 288, 384, 480, 576, 672, 768, 864, -1, 96, 192, 288, 384, 480, 576, 672, 768]

set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile langchain-text-splitters==1.1.3 tokenizers==0.23.3 \
    || { echo "not installed"; exit 2; }
venv/bin/python -W ignore - 2>errors.txt <<'EOF' || { tail -3 errors.txt; exit 1; }
import sys
from langchain_text_splitters import RecursiveCharacterTextSplitter
from tokenizers import Tokenizer, models, pre_tokenizers

tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
tokens = {"chunk_size": 24, "chunk_overlap": 12, "length_function": lambda text: len(tokenizer.encode(text).ids)}
text = " ".join(f"Sentence {number} tells of a cat that sat near a dog." for number in range(8))


def starts(text, **options):
    chunks = RecursiveCharacterTextSplitter(add_start_index=True, **options).create_documents([text])
    return [chunk.metadata["start_index"] for chunk in chunks], [text.find(chunk.page_content) for chunk in chunks]


characters, true_characters = starts(text, chunk_size=120, chunk_overlap=60)
in_tokens, true_tokens = starts(text, **tokens)
repeated, _ = starts("the same line of a form\n" * 40, **tokens)
print("characters:", characters)
print("tokens:", in_tokens)
print("tokens, true:", true_tokens)
print("repeated lines, tokens:", repeated)
if characters != true_characters or in_tokens == true_tokens or repeated == sorted(repeated):
    sys.exit("changed: other positions than stated")
EOF
