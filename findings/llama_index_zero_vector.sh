#!/usr/bin/env bash
# One zero vector in the SimpleVectorStore of llama-index hides nearer documents: its cosine is NaN, which breaks the
# heap that keeps the best.
#
# Versions: llama-index-core 0.14.25, numpy 2.4.6, Python 3.11
# Expected: the document without a vector last, or an error, and the others in their order. No similarity is compared
#   with NaN, so that a NaN which came into the heap of the k best stays there and hides worse ones below it. An empty
#   text has a zero vector in static models.
# Seen on 2026-11-30 (what this script printed):
#   four vectors, the two nearest to east: ['east', 'north-east']
#   a zero vector before the last two: ['east', 'north']
#   east, zero and west, the three nearest to east: ['west', 'zero', 'east']
#   1000 vectors, 0 of them zero: recall of the ten nearest 1.0
#   1000 vectors, 1 of them zero: recall of the ten nearest 0.7
#   1000 vectors, 10 of them zero: recall of the ten nearest 0.27

set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile llama-index-core==0.14.25 numpy==2.4.6 \
    || { echo "not installed"; exit 2; }
export HF_HUB_OFFLINE=1 HF_HOME="$folder/cache"
venv/bin/python -W ignore - <<'EOF'
import sys
import numpy
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores import SimpleVectorStore, VectorStoreQuery


def search(vectors, query, k):
    store = SimpleVectorStore()
    store.add([TextNode(id_=str(name), text=str(name), embedding=[float(x) for x in vector]) for name, vector in vectors.items()])
    return store.query(VectorStoreQuery(query_embedding=[float(x) for x in query], similarity_top_k=k)).ids


numpy.seterr(all="ignore")
plain = {"east": (1, 0), "north-east": (0.6, 0.8), "west": (-1, 0), "north": (0, 1)}
zero = {"east": (1, 0), "north-east": (0.6, 0.8), "zero": (0, 0), "west": (-1, 0), "north": (0, 1)}
three = {"east": (1, 0), "zero": (0, 0), "west": (-1, 0)}
found = [search(plain, (1, 0), 2), search(zero, (1, 0), 2), search(three, (1, 0), 3)]
print("four vectors, the two nearest to east:", found[0])
print("a zero vector before the last two:", found[1])
print("east, zero and west, the three nearest to east:", found[2])
draw = numpy.random.default_rng(0)
vectors, queries = draw.normal(size=(1000, 16)), draw.normal(size=(50, 16))
recalls = []
for zeros in (0, 1, 10):
    some = vectors.copy()
    some[draw.choice(1000, zeros, replace=False)] = 0
    hits = 0
    for query in queries:
        cosines = some @ query / numpy.maximum(numpy.linalg.norm(some, axis=1), 1e-9)
        hits += len({*map(str, numpy.argsort(-cosines)[:10])} & {*search(dict(enumerate(some)), query, 10)})
    recalls.append(hits / 500)
    print(f"1000 vectors, {zeros} of them zero: recall of the ten nearest {round(hits / 500, 2)}")
if found[0] != ["east", "north-east"] or "north-east" in found[1] or recalls[0] != 1 or recalls[2] > 0.6:
    sys.exit("changed: a zero vector hides no others")
EOF
