#!/usr/bin/env bash
# StaticModel.encode of model2vec takes any option of sentence-transformers and does nothing with it.
#
# Versions: model2vec 0.10.0, tokenizers 0.23.3, Python 3.11
# Expected: an option that `encode` does not have (`truncate_dim`, `prompt`, `normalize_embeddings`) is a TypeError, or
#   works as in sentence-transformers, whose place such a model often takes. `encode(texts, **kwargs)` swallows it: the
#   vectors have all dimensions, no prompt and their own length. What passes options on to "any encoder" (miners,
#   evaluators, scripts that compare models) measures something else than it says.
# Seen on 2026-11-30 (what this script printed):
#   plain: 8 dimensions, length 1.45
#   with truncate_dim=4: 8 dimensions, the same vector: True
#   with prompt='dog ': 8 dimensions, the same vector: True
#   with normalize_embeddings=True: 8 dimensions, the same vector: True

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
import numpy as np
from model2vec import StaticModel
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

words = ["[PAD]", "[UNK]", "cat", "dog", "sat", "ran"]
tokenizer = Tokenizer(WordLevel({word: number for number, word in enumerate(words)}, unk_token="[UNK]"))
tokenizer.pre_tokenizer = Whitespace()
vectors = np.random.default_rng(0).standard_normal((len(words), 8)).astype(np.float32)
model = StaticModel(vectors, tokenizer, normalize=False)
plain = model.encode("cat sat")
print(f"plain: {len(plain)} dimensions, length {np.linalg.norm(plain):.2f}")
same = []
for name, value in (("truncate_dim", 4), ("prompt", "dog "), ("normalize_embeddings", True)):
    other = model.encode("cat sat", **{name: value})
    same.append(np.array_equal(plain, other))
    print(f"with {name}={value!r}: {len(other)} dimensions, the same vector: {same[-1]}")
if not all(same) or np.array_equal(plain, model.encode("dog cat sat")):
    sys.exit("changed: an option is not ignored")
EOF
