#!/usr/bin/env bash
# Dataset.from_list keeps only the keys of the first row.
#
# Versions: datasets 5.2.0, pyarrow 26.0.1, pandas 3.1.1, Python 3.11
# Expected: the union of the keys, with None where a row has none, as pyarrow.json, pandas and load_dataset("json")
#   give for the same rows. Rows that begin without a hard negative lose all of them.
# Seen on 2026-11-28 (what this script printed):
#   Dataset.from_list: ['anchor', 'positive']
#   load_dataset: ['anchor', 'positive', 'negative']
#   Dataset.from_pandas: ['anchor', 'positive', 'negative']

set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile datasets==5.2.0 pandas==3.1.1 pyarrow==26.0.1 \
    || { echo "not installed"; exit 2; }
export HF_HUB_OFFLINE=1 HF_HOME="$folder/cache"
venv/bin/python -W ignore - <<'EOF'
import json, sys
from pathlib import Path
import datasets, pandas

datasets.disable_progress_bars()
rows = [{"anchor": "a", "positive": "b"}, {"anchor": "c", "positive": "d", "negative": "e"}]
Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
columns = {
    "Dataset.from_list": datasets.Dataset.from_list(rows).column_names,
    "load_dataset": datasets.load_dataset("json", data_files="rows.jsonl", split="train").column_names,
    "Dataset.from_pandas": datasets.Dataset.from_pandas(pandas.DataFrame(rows)).column_names,
}
for name, seen in columns.items():
    print(f"{name}: {seen}")
if ["negative" in seen for seen in columns.values()] != [False, True, True]:
    sys.exit("changed: other columns than stated")
EOF
