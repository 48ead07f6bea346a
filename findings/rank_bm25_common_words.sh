#!/usr/bin/env bash
# A word that half of the documents have counts nothing for BM25Okapi of rank-bm25, and one that all have counts more;
# where most words are common, documents with a word rank behind those without it. Okapi in haystack does the same.
#
# Versions: rank-bm25 0.2.2, haystack-ai 3.4.0, bm25s 0.3.16, numpy 2.4.6, Python 3.11
# Expected: a rarer word weighs more, and none is below 0. The weight log((N - n + 0.5) / (n + 0.5)) is 0 at one half.
#   Negative ones become a quarter of the mean over all words, which is above 0 if rare words outweigh the common ones,
#   and else below. bm25s, Lucene and haystack's default (BM25L) add 1 inside of the logarithm.
# Seen on 2026-11-30 (what this script printed):
#   'cat' in the cat sat, the dog ran, the bird saw a cat, the fish
#     rank-bm25 [0.0, 0.0, 0.0, 0.0]
#     haystack Okapi [0.0, 0.0, 0.0, 0.0]
#     bm25s [0.29, 0.0, 0.22, 0.0]
#   'the' in the cat sat, the dog ran, the bird saw a cat, the fish
#     rank-bm25 [0.11, 0.11, 0.08, 0.13]
#     haystack Okapi [0.11, 0.11, 0.08, 0.13]
#     bm25s [0.04, 0.04, 0.03, 0.05]
#   'car' in old red car, red old car, old red bus
#     rank-bm25 [-0.24, -0.24, 0.0]
#     haystack Okapi [-0.24, -0.24, 0.0]
#     bm25s [0.19, 0.19, 0.0]

set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile rank-bm25==0.2.2 bm25s==0.3.16 haystack-ai==3.4.0 numpy==2.4.6 \
    || { echo "not installed"; exit 2; }
export HF_HUB_OFFLINE=1 HF_HOME="$folder/cache" HAYSTACK_TELEMETRY_ENABLED=False
venv/bin/python -W ignore - <<'EOF'
import sys
import bm25s
from haystack import Document
from haystack.document_stores.in_memory import InMemoryDocumentStore
from rank_bm25 import BM25Okapi


def scores(documents, query):
    index = bm25s.BM25()
    index.index([text.split() for text in documents], show_progress=False)
    store = InMemoryDocumentStore(bm25_algorithm="BM25Okapi")
    store.write_documents([Document(content=text) for text in documents])
    found = {hit.content: hit.score for hit in store.bm25_retrieval(query)}
    every = {"rank-bm25": BM25Okapi([text.split() for text in documents]).get_scores(query.split()),
             "haystack Okapi": [found.get(text, 0) for text in documents], "bm25s": index.get_scores(query.split())}
    every = {name: [round(float(score), 2) + 0.0 for score in values] for name, values in every.items()}
    print(f"{query!r} in {', '.join(documents)}", *(f"{name} {values}" for name, values in every.items()), sep="\n  ")
    return every["rank-bm25"]


small = ["the cat sat", "the dog ran", "the bird saw a cat", "the fish"]
half, everywhere = scores(small, "cat"), scores(small, "the")
behind = scores(["old red car", "red old car", "old red bus"], "car")
if half != [0, 0, 0, 0] or min(everywhere) <= 0 or not behind[0] < 0 == behind[2]:
    sys.exit("changed: other weights of common words")
EOF
