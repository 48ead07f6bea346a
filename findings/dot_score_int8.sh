#!/usr/bin/env bash
# util.dot_score and semantic_search of sentence-transformers add products of int8 codes modulo 256.
#
# Versions: sentence-transformers 6.2.0, torch 2.13.0, Python 3.11
# Expected: the products of the codes that quantize_embeddings gives, or the error that cos_sim raises for them.
#   torch.mm of int8 gives int8, so that each sum wraps; uint8 too. pairwise_dot_score wraps each product, and adds
#   them in int64: another wrong number.
# Seen on 2026-11-30 (what this script printed):
#   the first code with itself: 157784, dot_score 88, pairwise_dot_score -168
#   all scores equal the products modulo 256: True, equal them: 0.00
#   semantic_search of the codes as torch.float32 finds the code itself for 1.00 of them
#   semantic_search of the codes as torch.int8 finds the code itself for 0.01 of them
#   cos_sim: linalg.vector_norm: Expected a floating point or complex tensor

set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile --extra-index-url https://download.pytorch.org/whl/cpu torch==2.13.0 sentence-transformers==6.2.0 \
    transformers==5.23.0 numpy==2.4.6 \
    || { echo "not installed"; exit 2; }
export HF_HUB_OFFLINE=1 HF_HOME="$folder/cache"
venv/bin/python -W ignore - <<'EOF'
import logging, sys
import numpy, torch
from sentence_transformers import util
from sentence_transformers.util.quantization import quantize_embeddings

logging.disable()
vectors = numpy.random.default_rng(0).normal(size=(200, 64)).astype(numpy.float32)
vectors /= numpy.linalg.norm(vectors, axis=1, keepdims=True)
codes = quantize_embeddings(vectors, "int8")
right = codes.astype(int) @ codes.T.astype(int)
scores = util.dot_score(codes, codes).numpy()
print(f"the first code with itself: {right[0, 0]}, dot_score {scores[0, 0]}, pairwise_dot_score {util.pairwise_dot_score(codes[:1], codes[:1]).item()}")
print(f"all scores equal the products modulo 256: {bool(((scores - right) % 256 == 0).all())}, equal them: {(scores == right).mean():.2f}")
shares = []
for kind in (torch.float32, torch.int8):
    hits = util.semantic_search(torch.tensor(codes).to(kind), torch.tensor(codes).to(kind), score_function=util.dot_score, top_k=1)
    shares.append(sum(hit[0]["corpus_id"] == number for number, hit in enumerate(hits)) / len(hits))
    print(f"semantic_search of the codes as {kind} finds the code itself for {shares[-1]:.2f} of them")
try:
    util.cos_sim(codes, codes)
    print("cos_sim gives values")
except RuntimeError as error:
    print("cos_sim:", str(error)[:64])
if shares[1] > 0.2 or shares[0] < 0.9 or (scores == right).all():
    sys.exit("changed: sums of codes do not wrap")
EOF
