#!/usr/bin/env bash
# An int8 index of usearch with squared Euclidean distance forgets the lengths of the vectors: (1, 0), (5, 0) and
# (0.1, 0) become the same codes, at distance 0.
#
# Versions: usearch 2.26.6, numpy 2.4.6, Python 3.11
# Expected: one scale for the whole index, so that codes keep the order of the distances, as faiss keeps it with 8
#   bits. usearch scales each vector to length 127 when it converts floats, whatever the metric; only vectors of
#   length 1 come back.
# Seen on 2026-11-28 (what this script printed):
#   usearch f32, distances from (5, 0): {0: 16.0, 1: 0.0, 2: 24.0, 3: 34.0}
#   usearch i8, distances from (5, 0): {0: 0.0, 1: 0.0, 2: 0.0, 3: 32005.0}
#   usearch i8, the codes: [[127, 0], [127, 0], [127, 0], [0, 126]]
#   faiss 8 bits, distances from (5, 0): {0: 15.9, 1: 0.0, 2: 23.9, 3: 33.9}

set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile usearch==2.26.6 faiss-cpu==1.15.1 numpy==2.4.6 \
    || { echo "not installed"; exit 2; }
export HF_HUB_OFFLINE=1 HF_HOME="$folder/cache"
venv/bin/python -W ignore - <<'EOF'
import sys
import faiss, numpy
from usearch.index import Index

vectors = numpy.array([[1, 0], [5, 0], [0.1, 0], [0, 3]], numpy.float32)
found = {}
for kind in ("f32", "i8"):
    index = Index(ndim=2, metric="l2sq", dtype=kind)
    index.add(numpy.arange(4), vectors)
    matches = index.search(vectors[1], 4)
    found[kind] = dict(sorted(zip(matches.keys.tolist(), [round(float(value), 1) for value in matches.distances])))
    print(f"usearch {kind}, distances from (5, 0):", found[kind])
print("usearch i8, the codes:", [index.get(key).tolist() for key in range(4)])
eight = faiss.IndexScalarQuantizer(2, faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_L2)
eight.train(vectors)
eight.add(vectors)
distances, ids = eight.search(vectors[1:2], 4)
print("faiss 8 bits, distances from (5, 0):", dict(sorted(zip(ids[0].tolist(), [round(float(value), 1) for value in distances[0]]))))
if [found["i8"][key] for key in (0, 1, 2)] != [0, 0, 0] or found["f32"][0] != 16:
    sys.exit("changed: the codes keep the lengths")
EOF
