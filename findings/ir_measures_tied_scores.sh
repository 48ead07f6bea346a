#!/usr/bin/env bash
# ir-measures ranks documents with one score in one way for RR and P@1, and the other way round for RR@10 and RR@1.
#
# Versions: ir-measures 0.4.3, pytrec-eval-terrier 0.5.11, numpy 2.4.6, Python 3.11
# Expected: RR@1 is P@1, and RR is RR@k for a k of all documents. RR goes to pytrec_eval, which puts the higher id first
#   as trec_eval does, RR@k to the script of MS MARCO, which gets the lower id first. Scores that differ by less than
#   float32 can say are ties for pytrec_eval alone. Hamming distances of binary codes are full of ties.
# Seen on 2026-11-30 (what this script printed):
#   a, b and c have score 1, a is relevant: {'P@1': 0.0, 'RR': 0.33, 'RR@1': 1.0, 'RR@100': 1.0}
#   a, b and c have score 1, b is relevant: {'P@1': 0.0, 'RR': 0.5, 'RR@1': 0.0, 'RR@100': 0.5}
#   a, b and c have score 1, c is relevant: {'P@1': 1.0, 'RR': 1.0, 'RR@1': 0.0, 'RR@100': 0.33}
#   a is better than b by 1e-8, a is relevant: {'P@1': 0.0, 'RR': 0.5, 'RR@1': 1.0, 'RR@100': 1.0}
#   200 queries over 2,000 codes of 64 bits: {'P@1': 0.57, 'RR': 0.66, 'RR@1': 0.66, 'RR@100': 0.74}

set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile ir-measures==0.4.3 pytrec-eval-terrier==0.5.11 numpy==2.4.6 \
    || { echo "not installed"; exit 2; }
export HF_HUB_OFFLINE=1 HF_HOME="$folder/cache"
venv/bin/python -W ignore - <<'EOF'
import sys
import ir_measures, numpy
from ir_measures import P, RR


def measure(qrels, run):
    return {str(name): round(value, 2) for name, value in sorted(ir_measures.calc_aggregate([RR, RR @ 100, RR @ 1, P @ 1], qrels, run).items(), key=str)}


tied = {}
for relevant in "abc":
    tied[relevant] = measure({"q": {relevant: 1}}, {"q": {"a": 1.0, "b": 1.0, "c": 1.0}})
    print(f"a, b and c have score 1, {relevant} is relevant:", tied[relevant])
near = measure({"q": {"a": 1}}, {"q": {"a": 0.99999999, "b": 0.99999998}})
print("a is better than b by 1e-8, a is relevant:", near)
draw = numpy.random.default_rng(0)
documents = draw.normal(size=(2000, 64))
queries = documents[:200] + draw.normal(size=(200, 64)) * 1.2
distances = ((documents > 0)[None] != (queries > 0)[:, None]).sum(2)
run = {f"q{q}": {f"d{d:04d}": 64.0 - row[d] for d in numpy.argsort(row, kind="stable")[:100]} for q, row in enumerate(distances)}
codes = measure({f"q{q}": {f"d{q:04d}": 1} for q in range(200)}, run)
print("200 queries over 2,000 codes of 64 bits:", codes)
if tied["a"]["RR@1"] != 1 or tied["a"]["P@1"] != 0 or tied["c"]["RR@1"] != 0 or tied["c"]["P@1"] != 1 or codes["RR@1"] == codes["P@1"]:
    sys.exit("changed: ties have one order")
EOF
