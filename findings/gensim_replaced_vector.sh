#!/usr/bin/env bash
# gensim gives a cosine of 10 after a word's vector was replaced: most_similar divides by the former norm.
#
# Versions: gensim 4.4.0, numpy 2.4.6, Python 3.11
# Expected: 1.0, which `similarity` gives for the same two words. The norms are kept after the first query, and
#   neither add_vectors with replace=True nor an assignment counts them again; fill_norms(force=True) does.
# Seen on 2026-11-28 (what this script printed):
#   before: [('northeast', 0.71), ('north', 0.0)]
#   most_similar after north = [10, 0]: {'north': 10.0, 'northeast': 0.71} similarity: 1.0
#   after fill_norms(force=True): {'north': 1.0, 'northeast': 0.71}

set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile gensim==4.4.0 numpy==2.4.6 \
    || { echo "not installed"; exit 2; }
export HF_HUB_OFFLINE=1 HF_HOME="$folder/cache"
venv/bin/python -W ignore - <<'EOF'
import sys
import numpy
from gensim.models import KeyedVectors

vectors = KeyedVectors(2)
vectors.add_vectors(["east", "north", "northeast"], numpy.float32([[1, 0], [0, 1], [1, 1]]))
print("before:", [(word, round(float(score), 2)) for word, score in vectors.most_similar("east")])
vectors.add_vectors(["north"], numpy.float32([[10, 0]]), replace=True)
after = {word: round(float(score), 2) for word, score in vectors.most_similar("east")}
print("most_similar after north = [10, 0]:", after, "similarity:", float(vectors.similarity("east", "north")))
vectors.fill_norms(force=True)
right = {word: round(float(score), 2) for word, score in vectors.most_similar("east")}
print("after fill_norms(force=True):", right)
if after["north"] != 10 or right["north"] != 1:
    sys.exit("changed: other cosines than stated")
EOF
