#!/usr/bin/env bash
# A refined index of faiss has the recall of the index without refinement, until k_factor is set.
#
# Versions: faiss-cpu 1.15.1, numpy 2.4.6, Python 3.11
# Expected: exact distances of the candidates raise recall. k_factor is 1 by default: the k results of the codes are
#   put in another order, and no other result can come in. It is the same for Refine(SQ8).
# Seen on 2026-11-28 (what this script printed):
#   PQ16x4fs: recall@10 0.18
#   PQ16x4fs,RFlat: recall@10 0.18
#   PQ16x4fs,RFlat, k_factor 20: recall@10 0.74

set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile faiss-cpu==1.15.1 numpy==2.4.6 \
    || { echo "not installed"; exit 2; }
export HF_HUB_OFFLINE=1 HF_HOME="$folder/cache"
venv/bin/python -W ignore - <<'EOF'
import sys
import faiss
import numpy

random = numpy.random.default_rng(0)
rows, queries = (random.standard_normal((n, 64), dtype=numpy.float32) for n in (10_000, 200))
exact = faiss.IndexFlatL2(64)
exact.add(rows)
nearest = exact.search(queries, 10)[1]


def recall(index, **settings):
    for name, value in settings.items():
        setattr(index, name, value)
    found = index.search(queries, 10)[1]
    return round(float(numpy.mean([len({*a} & {*b}) / 10 for a, b in zip(found, nearest)])), 2)


seen = {}
for kind in ("PQ16x4fs", "PQ16x4fs,RFlat"):
    index = faiss.index_factory(64, kind)
    index.train(rows)
    index.add(rows)
    seen[kind] = recall(index)
    print(f"{kind}: recall@10 {seen[kind]}")
seen["more"] = recall(index, k_factor=20)
print(f"{kind}, k_factor 20: recall@10 {seen['more']}")
if seen["PQ16x4fs"] != seen["PQ16x4fs,RFlat"] or seen["more"] < seen["PQ16x4fs"] + 0.2:
    sys.exit("changed: other recalls than stated")
EOF
