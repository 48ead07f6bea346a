#!/usr/bin/env bash
# pyarrow.csv reads a quote that never closes without an error: the rest of the file is one cell.
#
# Versions: pyarrow 26.0.1, pandas 3.1.1, Python 3.11
# Expected: ArrowInvalid, as for a row with too few or too many cells, and as pandas and csv (strict) report it. The
#   rows after the quote are gone, and a text after a closing quote joins the cell.
# Seen on 2026-11-28 (what this script printed):
#   pyarrow: [{'text': 'first', 'label': '0'}, {'text': 'x', 'label': '1\nthird,0\nfourth,1\n'}]
#   pandas: ParserError: Error tokenizing data. C error: EOF inside string starting at row 2
#   csv, strict: Error: unexpected end of data
#   pyarrow, text after a quote: [{'a': 'x', 'b': 'one more'}]

set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile pyarrow==26.0.1 pandas==3.1.1 \
    || { echo "not installed"; exit 2; }
venv/bin/python -W ignore - <<'EOF'
import csv, io, sys
import pandas
from pyarrow import csv as arrow

table = 'text,label\nfirst,0\nx,"1\nthird,0\nfourth,1\n'
rows = {}
for name, read in {
    "pyarrow": lambda: arrow.read_csv(io.BytesIO(table.encode())).to_pylist(),
    "pandas": lambda: pandas.read_csv(io.StringIO(table)).to_dict("records"),
    "csv, strict": lambda: list(csv.reader(io.StringIO(table), strict=True)),
}.items():
    try:
        rows[name] = read()
        print(f"{name}: {rows[name]}")
    except (pandas.errors.ParserError, csv.Error) as error:
        print(f"{name}: {type(error).__name__}: {error}")
print("pyarrow, text after a quote:", arrow.read_csv(io.BytesIO(b'a,b\nx,"one" more\n')).to_pylist())
if set(rows) != {"pyarrow"} or len(rows["pyarrow"]) != 2:
    sys.exit("changed: pyarrow reports the quote, or another reader does not")
EOF
