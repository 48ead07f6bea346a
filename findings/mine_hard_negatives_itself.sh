#!/usr/bin/env bash
# mine_hard_negatives of sentence-transformers gives a question as a negative of itself, where it answers another row.
#
# Versions: sentence-transformers 6.2.0, datasets 5.2.0, torch 2.13.0, Python 3.11
# Expected: a text is no negative of itself. By default negatives are the answers of other rows, without those of the
#   query, and without a look at the query. In pairs of one kind, as duplicate questions or citations, a text is in
#   both columns, and as its similarity is 1 it is the hardest negative; a corpus that has the queries does the same.
#   max_score and the margins leave it out.
# Seen on 2026-11-30 (what this script printed):
#   defaults: 2 of 4 negatives are the anchor itself
#   {'anchor': 'how old is the sun', 'positive': 'what is the age of the sun', 'negative': 'age of our sun in years'}
#   {'anchor': 'what is the age of the sun', 'positive': 'age of our sun in years', 'negative': 'what is the age of the sun'}
#   relative_margin=0.05: 0 of 4 negatives are the anchor itself

set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile --extra-index-url https://download.pytorch.org/whl/cpu torch==2.13.0 sentence-transformers==6.2.0 \
    transformers==5.23.0 datasets==5.2.0 numpy==2.4.6 \
    || { echo "not installed"; exit 2; }
export HF_HUB_OFFLINE=1 HF_HOME="$folder/cache"
venv/bin/python -W ignore - 2> errors <<'EOF' || { code=$?; tail -n 1 errors; exit $code; }
import logging, sys
import datasets, tokenizers, torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from sentence_transformers.util import mine_hard_negatives

logging.disable()
pairs = [("how old is the sun", "what is the age of the sun"), ("what is the age of the sun", "age of our sun in years"),
         ("how to bake bread", "how to make bread at home"), ("how to make bread at home", "recipe for home made bread")]
words = sorted({word for pair in pairs for text in pair for word in text.split()})
tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel({word: n for n, word in enumerate(words)}, unk_token=words[0]))
tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
torch.manual_seed(0)
model = SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_dim=256)], device="cpu")
rows = datasets.Dataset.from_dict({"anchor": [a for a, _ in pairs], "positive": [b for _, b in pairs]})
same = {}
for name, options in (("defaults", {}), ("relative_margin=0.05", {"relative_margin": 0.05})):
    mined = list(mine_hard_negatives(rows, model, num_negatives=1, verbose=False, **options))
    same[name] = sum(row["negative"] == row["anchor"] for row in mined)
    print(f"{name}: {same[name]} of {len(mined)} negatives are the anchor itself")
    if not options:
        print(*mined[:2], sep="\n")
if same["defaults"] != 2 or same["relative_margin=0.05"]:
    sys.exit("changed: other negatives are the anchor itself")
EOF
