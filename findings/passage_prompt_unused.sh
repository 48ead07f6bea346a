#!/usr/bin/env bash
# A prompt named "passage" or "corpus" is never used by encode_document of sentence-transformers.
#
# Versions: sentence-transformers 6.2.0, transformers 5.23.0, torch 2.13.0, Python 3.11
# Expected: as its docstring says, encode_document uses the first available of the prompts "document", "passage" and
#   "corpus". But a model always has a "document": opening one adds it, empty, if it is not given. So the documents of
#   a folder with the prompts "query" and "passage" have no prompt, without a warning.
# Seen on 2026-11-30 (what this script printed: the prompts, and the text that reached the model):
#   passage: {'query': 'Q: ', 'document': '', 'passage': 'P: '}, 'cat'
#   corpus: {'query': 'Q: ', 'document': '', 'corpus': 'P: '}, 'cat'
#   document: {'query': 'Q: ', 'document': 'P: '}, 'P: cat'

set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile --extra-index-url https://download.pytorch.org/whl/cpu torch==2.13.0 \
    sentence-transformers==6.2.0 transformers==5.23.0 scikit-learn==1.9.0 numpy==2.4.6 \
    || { echo "not installed"; exit 2; }
export HF_HUB_OFFLINE=1 HF_HOME="$folder/cache" CUDA_VISIBLE_DEVICES=
venv/bin/python -W ignore - 2>errors.txt <<'EOF' || { tail -3 errors.txt; exit 1; }
import json
import sys
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

seen = []
preprocess = StaticEmbedding.preprocess


def noted(self, inputs, *args, **options):
    seen.extend((options.get("prompt") or "") + text for text in inputs)
    return preprocess(self, inputs, *args, **options)


StaticEmbedding.preprocess = noted
tokenizer = Tokenizer(WordLevel({"[UNK]": 0, "P": 1, "cat": 2}, unk_token="[UNK]"))
tokenizer.pre_tokenizer = Whitespace()
made = SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_dim=8)], device="cpu")
made.save("saved")
texts = {}
for name in ("passage", "corpus", "document"):
    with open("saved/config_sentence_transformers.json", "r+") as file:
        config = json.load(file)
        config["prompts"] = {"query": "Q: ", name: "P: "}
        file.seek(0)
        json.dump(config, file)
        file.truncate()
    model = SentenceTransformer("saved", device="cpu")
    seen.clear()
    model.encode_document(["cat"])
    texts[name] = seen[-1]
    print(f"{name}: {model.prompts}, {seen[-1]!r}")
if "passage" not in SentenceTransformer.encode_document.__doc__:
    sys.exit("changed: the docstring does not name passage")
if texts != {"passage": "cat", "corpus": "cat", "document": "P: cat"}:
    sys.exit("changed: other prompts than stated")
EOF
