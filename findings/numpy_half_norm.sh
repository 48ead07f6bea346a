#!/usr/bin/env bash
# The norm of a float16 embedding of length 277 is inf in numpy, so that dividing by it gives a vector of zeros.
#
# Versions: numpy 2.4.6, Python 3.11
# Expected: 277.1, as numpy gives for the same values in float32: each value is small, only the sum of squares is
#   above 65,504. Models of language have such norms before they are normalized. numpy.mean of float16 does add in
#   float32; linalg.norm does not, with or without an axis.
# Seen on 2026-11-28 (what this script printed):
#   norms in float16: [inf, inf] of one vector: inf
#   norms in float32: [277.1000061035156, 277.1000061035156]
#   normalized in float16: [0.0, 0.0, 0.0]
#   mean of 100,000 times 10 in float16: 10.0

set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile numpy==2.4.6 \
    || { echo "not installed"; exit 2; }
export HF_HUB_OFFLINE=1 HF_HOME="$folder/cache"
venv/bin/python -W ignore - <<'EOF'
import sys
import numpy

vectors = numpy.full((2, 768), 10, numpy.float16)
half = numpy.linalg.norm(vectors, axis=1)
single = numpy.linalg.norm(vectors.astype(numpy.float32), axis=1)
unit = vectors / half[:, None]
print("norms in float16:", half.tolist(), "of one vector:", float(numpy.linalg.norm(vectors[0])))
print("norms in float32:", single.round(1).tolist())
print("normalized in float16:", unit[0, :3].tolist())
print("mean of 100,000 times 10 in float16:", float(numpy.full(100_000, 10, numpy.float16).mean()))
if not numpy.isinf(half).all() or unit.any():
    sys.exit("changed: the norm is added in more than float16")
EOF
