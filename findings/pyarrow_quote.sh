#!/usr/bin/env bash
# pyarrow.csv reads a quote that never closes as one cell, without an error.
#
# Versions: pyarrow 26.0.1, csv of Python 3.11.7
# Expected: an error, as csv.reader(strict=True) gives; not that all later rows become one cell.
# Seen on 2026-11-28 (what this script printed):
#   csv, strict: unexpected end of data
#   pyarrow: [{'a': 'x', 'b': 'never closed\ny,z\n'}]

set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet pyarrow==26.0.1 || { echo "not installed"; exit 2; }
export HF_HUB_OFFLINE=1 HF_HOME="$folder/cache"
venv/bin/python -W ignore - <<'EOF'
import csv, io, sys
import pyarrow.csv

text = 'a,b\nx,"never closed\ny,z\n'
try:
    rows = list(csv.reader(io.StringIO(text), strict=True))
except csv.Error as error:
    rows = str(error)
table = pyarrow.csv.read_csv(io.BytesIO(text.encode())).to_pylist()
print("csv, strict:", rows)
print("pyarrow:", table)
if rows != "unexpected end of data" or table != [{"a": "x", "b": "never closed\ny,z\n"}]:
    sys.exit("changed: the two readers do other than stated")
EOF
