#!/usr/bin/env bash
# The `score` of semantic_search_usearch in sentence-transformers is a distance: its best hit has the lowest, that
# of semantic_search_faiss the highest.
#
# Versions: sentence-transformers 6.2.0, faiss-cpu 1.15.1, usearch 2.26.6, Python 3.11
# Expected: one meaning of `score` in two functions with the same arguments and results, as in util.semantic_search.
#   For float32 usearch gives 1 minus the similarity; after rescoring of binary codes both give similarities.
# Seen on 2026-11-28 (what this script printed):
#   semantic_search_faiss,
#     scores of the text itself and of the second: float32 [1.0, 0.38], binary rescored [1.72, 0.39]
#   semantic_search_usearch,
#     scores of the text itself and of the second: float32 [0.0, 0.62], binary rescored [1.72, 0.39]

set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile --extra-index-url https://download.pytorch.org/whl/cpu torch==2.13.0 sentence-transformers==6.2.0 \
    transformers==5.23.0 faiss-cpu==1.15.1 usearch==2.26.6 numpy==2.4.6 \
    || { echo "not installed"; exit 2; }
export HF_HUB_OFFLINE=1 HF_HOME="$folder/cache"
venv/bin/python -W ignore - <<'EOF'
import logging, sys
import numpy
from sentence_transformers.quantization import quantize_embeddings, semantic_search_faiss, semantic_search_usearch

logging.disable()
corpus = numpy.random.default_rng(0).normal(size=(50, 32)).astype(numpy.float32)
corpus /= numpy.linalg.norm(corpus, axis=1, keepdims=True)
codes = quantize_embeddings(corpus, "ubinary")
best = {}
for search in (semantic_search_faiss, semantic_search_usearch):
    hits = search(corpus[:1], corpus_embeddings=corpus, corpus_precision="float32", top_k=2, rescore=False, exact=True)[0][0]
    again = search(corpus[:1], corpus_embeddings=codes, corpus_precision="ubinary", top_k=2, rescore=True, exact=True)[0][0]
    best[search.__name__] = [[round(float(hit["score"]), 2) + 0.0 for hit in kind] for kind in (hits, again)]
    print(f"{search.__name__}, scores of the text itself and of the second: float32 {best[search.__name__][0]}, binary rescored {best[search.__name__][1]}")
faiss, usearch = best.values()
if not (faiss[0][0] > faiss[0][1] and usearch[0][0] < usearch[0][1] and usearch[1][0] > usearch[1][1]):
    sys.exit("changed: the scores have another direction")
EOF
