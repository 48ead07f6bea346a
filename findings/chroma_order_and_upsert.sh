#!/usr/bin/env bash
# get(ids=...) of chroma answers in the order in which documents were added, not in that of the ids; and upsert keeps
# the old document and the old keys of the metadata.
#
# Versions: chromadb 1.5.9, qdrant-client 1.20.0, numpy 2.4.6, Python 3.11
# Expected: the vector at each place belongs to the id at that place of the question, as in qdrant-client (retrieve).
#   An id that is not there is left out, and one that is asked for twice comes once, so that lists do not even have one
#   length. upsert with a vector and metadata changes these keys alone: the text of the former document stays with it.
# Seen on 2026-11-30 (what this script printed):
#   chroma, get of d, a, c: ['a', 'c', 'd'] vectors [0, 2, 3]
#   qdrant, retrieve of 3, 0, 2: [3, 0, 2]
#   chroma, after upsert of a: text a {'page': 1, 'source': 'new'} vector [1]
#   qdrant, after upsert of 0: {'source': 'new'}

set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile chromadb==1.5.9 qdrant-client==1.20.0 numpy==2.4.6 \
    || { echo "not installed"; exit 2; }
export HF_HUB_OFFLINE=1 HF_HOME="$folder/cache" ANONYMIZED_TELEMETRY=False
venv/bin/python -W ignore - <<'EOF'
import sys
import chromadb, numpy
from qdrant_client import QdrantClient, models

vectors = numpy.eye(5, dtype=numpy.float32)
texts = chromadb.EphemeralClient().create_collection("texts")
texts.add(ids=list("abcde"), embeddings=vectors, documents=[f"text {name}" for name in "abcde"], metadatas=[{"source": "old", "page": 1}] * 5)
got = texts.get(ids=["d", "a", "c"], include=["embeddings"])
print("chroma, get of d, a, c:", got["ids"], "vectors", got["embeddings"].argmax(1).tolist())
points = QdrantClient(":memory:")
points.create_collection("texts", vectors_config=models.VectorParams(size=5, distance="Cosine"))
points.upsert("texts", [models.PointStruct(id=n, vector=vectors[n].tolist(), payload={"source": "old", "page": 1}) for n in range(5)])
print("qdrant, retrieve of 3, 0, 2:", [point.id for point in points.retrieve("texts", [3, 0, 2])])
texts.upsert(ids=["a"], embeddings=vectors[1:2], metadatas=[{"source": "new"}])
points.upsert("texts", [models.PointStruct(id=0, vector=vectors[1].tolist(), payload={"source": "new"})])
after = texts.get(ids=["a"], include=["documents", "metadatas", "embeddings"])
metadata = dict(sorted(after["metadatas"][0].items()))
print("chroma, after upsert of a:", after["documents"][0], metadata, "vector", after["embeddings"].argmax(1).tolist())
print("qdrant, after upsert of 0:", points.retrieve("texts", [0])[0].payload)
if got["ids"] != ["a", "c", "d"] or metadata != {"page": 1, "source": "new"} or after["documents"] != ["text a"]:
    sys.exit("changed: get has another order, or upsert replaces")
EOF
