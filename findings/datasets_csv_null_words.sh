#!/usr/bin/env bash
# datasets reads the texts null, NA, None and nan of a csv as missing.
#
# Versions: datasets 5.2.0, pandas 3.1.1, pyarrow 26.0.1, Python 3.11.7
# Expected: a column of texts keeps each text, as pyarrow.csv does; the words that pandas takes for missing numbers
#   become None.
# Seen on 2026-11-28 (what this script printed):
#   datasets: [None, None, None, None, 'hello']
#   pyarrow: ['null', 'NA', 'None', 'nan', 'hello']

set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet datasets==5.2.0 pandas==3.1.1 pyarrow==26.0.1 || { echo "not installed"; exit 2; }
export HF_HUB_OFFLINE=1 HF_HOME="$folder/cache"
venv/bin/python -W ignore - <<'EOF'
import sys
from pathlib import Path
import datasets, pyarrow.csv

datasets.disable_progress_bars()
Path("rows.csv").write_text("text\nnull\nNA\nNone\nnan\nhello\n")
by_datasets = datasets.load_dataset("csv", data_files="rows.csv", split="train")["text"][:]
by_pyarrow = pyarrow.csv.read_csv("rows.csv")["text"].to_pylist()
print("datasets:", by_datasets)
print("pyarrow:", by_pyarrow)
if by_datasets != [None] * 4 + ["hello"] or by_pyarrow != ["null", "NA", "None", "nan", "hello"]:
    sys.exit("changed: other texts than stated")
EOF
