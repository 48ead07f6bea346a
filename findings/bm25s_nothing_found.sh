#!/usr/bin/env bash
# bm25s answers a query that no document contains with k documents, and drops words of one letter.
#
# Versions: bm25s 0.3.16, numpy 2.4.6, Python 3.11
# Expected: no documents, or an error. The last k of the corpus come back with score 0; a filter on the score is the
#   user's. tokenize takes words of two letters and more, and leaves out English stop words, so that C, R, 5 and "to
#   be or not to be" are queries without words.
# Seen on 2026-11-28 (what this script printed):
#   cat: [('a cat sat', 0.46), ('a bird sang', 0.0)]
#   zebra: [('a bird sang', 0.0), ('a cat sat', 0.0)]
#   C: [('a bird sang', 0.0), ('a cat sat', 0.0)]
#   to be or not to be: [('a bird sang', 0.0), ('a cat sat', 0.0)]

set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile bm25s==0.3.16 numpy==2.4.6 \
    || { echo "not installed"; exit 2; }
export HF_HUB_OFFLINE=1 HF_HOME="$folder/cache"
venv/bin/python -W ignore - <<'EOF'
import sys
import bm25s

documents = ["the C language", "to be or not to be", "vitamins for the heart", "a cat sat", "a bird sang"]
index = bm25s.BM25()
index.index(bm25s.tokenize(documents, show_progress=False), show_progress=False)
seen = {}
for query in ("cat", "zebra", "C", "to be or not to be"):
    numbers, scores = index.retrieve(bm25s.tokenize(query, show_progress=False), k=2, show_progress=False)
    seen[query] = scores[0].tolist()
    print(f"{query}:", [(documents[n], round(float(s), 2)) for n, s in zip(numbers[0], scores[0])])
if seen["cat"][0] <= 0 or any(any(seen[query]) for query in list(seen)[1:]):
    sys.exit("changed: other scores than stated")
EOF
