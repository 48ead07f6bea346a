#!/usr/bin/env bash
# to_csv of datasets writes vectors of more than 1000 values as six values and "..."; to_json writes ten decimals.
#
# Versions: datasets 5.2.0, pandas 3.1.1, numpy 2.4.6, Python 3.11
# Expected: files that give back the table. A cell of a list is written as numpy prints it: to eight digits, and above
#   1000 values without the middle, so that vectors of 768 come back and those of 1024 do not. to_json is pandas' with
#   its double_precision of 10: a loss of 1e-12 becomes 0. Parquet keeps both.
# Seen on 2026-11-30 (what this script printed):
#   a vector of 768 values in csv: 768 values, without '...'
#   a vector of 1024 values in csv: 6 values, with '...'
#   [1e-12, 0.3333333333333333, 0.1234567891234] in JSON: [0.0, 0.3333333333, 0.1234567891], in Parquet: [1e-12, 0.3333333333333333, 0.1234567891234]

set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile datasets==5.2.0 pandas==3.1.1 numpy==2.4.6 \
    || { echo "not installed"; exit 2; }
export HF_HUB_OFFLINE=1 HF_HOME="$folder/cache"
venv/bin/python -W ignore - 2> errors <<'EOF' || { code=$?; tail -n 1 errors; exit $code; }
import csv, json, sys
import datasets, numpy

numbers = {}
for size in (768, 1024):
    vector = numpy.random.default_rng(0).normal(size=size).astype(numpy.float32)
    datasets.Dataset.from_dict({"vector": [vector]}).to_csv("vectors.csv")
    with open("vectors.csv", newline="") as file:
        cell = list(csv.DictReader(file))[0]["vector"]
    numbers[size] = len(cell.strip("[]").replace("...", "").split())
    print(f"a vector of {size} values in csv: {numbers[size]} values, {'...' in cell and 'with' or 'without'} '...'")
rows = datasets.Dataset.from_dict({"probability": [1e-12, 1 / 3, 0.1234567891234]})
rows.to_json("rows.jsonl")
with open("rows.jsonl") as file:
    back = [json.loads(line)["probability"] for line in file]
rows.to_parquet("rows.parquet")
print(f"{rows['probability'][:]} in JSON: {back}, in Parquet:", datasets.Dataset.from_parquet("rows.parquet")["probability"][:])
if numbers != {768: 768, 1024: 6} or back[0] != 0:
    sys.exit("changed: files have more of the values")
EOF
