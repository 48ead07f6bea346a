#!/usr/bin/env bash
# One unquoted comma in each row of a csv shifts every column in datasets, without an error.
#
# Versions: datasets 5.2.0, pandas 3.1.1, pyarrow 26.0.1, Python 3.11.7
# Expected: an error about rows with more fields than the header, as pyarrow.csv gives; pandas takes the first field
#   for an index.
# Seen on 2026-11-28 (what this script printed):
#   datasets: {'query': ['yes', 'well'], 'answer': [' it is', ' me'], '__index_level_0__': ['what', 'who']}
#   pyarrow: CSV parse error: Expected 2 columns, got 3: what,yes, it is

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
import datasets, pyarrow, pyarrow.csv

datasets.disable_progress_bars()
Path("rows.csv").write_text("query,answer\nwhat,yes, it is\nwho,well, me\n")
seen = datasets.load_dataset("csv", data_files="rows.csv", split="train")[:]
print("datasets:", seen)
try:
    pyarrow.csv.read_csv("rows.csv")
    refused = False
except pyarrow.ArrowInvalid as error:
    refused = True
    print("pyarrow:", str(error).splitlines()[0])
if not refused or seen["query"] != ["yes", "well"] or seen["answer"] != [" it is", " me"]:
    sys.exit("changed: the rows are read otherwise than stated")
EOF
