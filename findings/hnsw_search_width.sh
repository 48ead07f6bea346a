#!/usr/bin/env bash
# HNSW indexes of hnswlib and usearch forget, when saved, how wide they search; those of faiss do not.
#
# Versions: hnswlib 0.8.0, usearch 2.26.6, faiss-cpu 1.15.1, numpy 2.4.6, Python 3.11
# Expected: an index that is saved and opened finds what it found. hnswlib sets `ef` to 10 (the width was 400), usearch
#   `expansion_search` to 64 (the width was 400); the graph is the same. On random vectors recall falls as below, with no
#   warning. faiss keeps `efSearch`. So set the width again after opening.
# Seen on 2026-11-30 (what this script printed):
#   hnswlib: width 400, after opening 10; recall 1.0, after opening 0.3
#   usearch: width 400, after opening 64; recall 1.0, after opening 0.7
#   faiss: width 400, after opening 400; recall 1.0, after opening 1.0

set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile hnswlib==0.8.0 usearch==2.26.6 faiss-cpu==1.15.1 numpy==2.4.6 \
    || { echo "not installed"; exit 2; }
venv/bin/python -W ignore - <<'EOF'
import sys

import faiss
import hnswlib
import numpy as np
from usearch.index import Index

random = np.random.default_rng(0)
vectors = random.normal(size=(20_000, 64)).astype(np.float32)
vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
queries = random.normal(size=(200, 64)).astype(np.float32)
exact = np.argsort(-queries @ vectors.T, axis=1)[:, :10]


def recall(found):
    return np.mean([len({*a} & {*b}) / 10 for a, b in zip(found.tolist(), exact.tolist(), strict=True)])


def of_hnswlib():
    index = hnswlib.Index("cosine", 64)
    index.init_index(len(vectors), ef_construction=100, M=16)
    index.set_ef(400)
    index.add_items(vectors)
    index.save_index("hnswlib")
    opened = hnswlib.Index("cosine", 64)
    opened.load_index("hnswlib")
    return index.ef, opened.ef, *(recall(one.knn_query(queries, 10)[0]) for one in (index, opened))


def of_usearch():
    index = Index(ndim=64, metric="cos", connectivity=16, expansion_add=100, expansion_search=400)
    index.add(np.arange(len(vectors)), vectors)
    index.save("usearch")
    opened = Index.restore("usearch")
    recalls = (recall(one.search(queries, 10).keys) for one in (index, opened))
    return index.expansion_search, opened.expansion_search, *recalls


def of_faiss():
    index = faiss.IndexHNSWFlat(64, 16, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction, index.hnsw.efSearch = 100, 400
    index.add(vectors)
    faiss.write_index(index, "faiss")
    opened = faiss.read_index("faiss")
    return index.hnsw.efSearch, opened.hnsw.efSearch, *(recall(one.search(queries, 10)[1]) for one in (index, opened))


seen = {"hnswlib": of_hnswlib(), "usearch": of_usearch(), "faiss": of_faiss()}
for name, (width, opened, before, after) in seen.items():
    print(f"{name}: width {width}, after opening {opened}; recall {before:.1f}, after opening {after:.1f}")
widths = [row[:2] for row in seen.values()]
if widths != [(400, 10), (400, 64), (400, 400)] or not all(row[2] - row[3] > 0.2 for row in list(seen.values())[:2]):
    sys.exit("changed: other widths or recalls than stated")
EOF
