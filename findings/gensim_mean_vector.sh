#!/usr/bin/env bash
# get_mean_vector of gensim is not the mean of the vectors: it normalizes each word first.
#
# Versions: gensim 4.4.0, numpy 2.4.6, Python 3.11
# Expected: the mean of keyed[words], which is what n_similarity of the same object compares; pre_normalize=True is
#   the default of the one and not of the other. Long (rare) words lose their weight.
# Seen on 2026-11-28 (what this script printed):
#   mean of the vectors: [4.0, 0.5]
#   get_mean_vector: [0.5, 0.5]
#   n_similarity of (rare, common) and (rare): 0.992
#   cosine of get_mean_vector and rare: 0.707

set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile gensim==4.4.0 numpy==2.4.6 scipy==1.17.1 \
    || { echo "not installed"; exit 2; }
export HF_HUB_OFFLINE=1 HF_HOME="$folder/cache"
venv/bin/python -W ignore - <<'EOF'
import sys
import numpy
from gensim.models import KeyedVectors

words = KeyedVectors(2)
words.add_vectors(["rare", "common"], numpy.array([[8, 0], [0, 1]], numpy.float32))
mean = words[["rare", "common"]].mean(0)
by_name = words.get_mean_vector(["rare", "common"])
print("mean of the vectors:", mean.tolist())
print("get_mean_vector:", by_name.tolist())
print("n_similarity of (rare, common) and (rare):", round(float(words.n_similarity(["rare", "common"], ["rare"])), 3))
cosine = by_name @ words["rare"] / numpy.linalg.norm(by_name) / numpy.linalg.norm(words["rare"])
print("cosine of get_mean_vector and rare:", round(float(cosine), 3))
if by_name.tolist() != [0.5, 0.5] or mean.tolist() != [4, 0.5]:
    sys.exit("changed: other means than stated")
EOF
