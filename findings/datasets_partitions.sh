#!/usr/bin/env bash
# load_dataset of a folder that pandas has partitioned by a column has all rows, without the column.
#
# Versions: datasets 5.2.0, pandas 3.1.1, pyarrow 26.0.1, Python 3.11
# Expected: the columns that pandas and pyarrow read from the folder, label among them, or an error.
# Seen on 2026-11-29 (what this script printed):
#   pandas: ['text', 'label']
#   datasets: ['text'], 4 rows

set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile datasets==5.2.0 pandas==3.1.1 pyarrow==26.0.1 || { echo "not installed"; exit 2; }
cat > read.py <<'EOF'
import sys

import datasets
import pandas as pd

datasets.disable_progress_bars()
pd.DataFrame({"text": list("abcd"), "label": ["yes", "no"] * 2}).to_parquet("rows", partition_cols=["label"])
by_pandas = pd.read_parquet("rows").columns.tolist()
rows = datasets.load_dataset("rows", split="train")
print(f"pandas: {by_pandas}\ndatasets: {rows.column_names}, {len(rows)} rows")
sys.exit(by_pandas != ["text", "label"] or rows.column_names != ["text"] or len(rows) != 4)
EOF
HF_HOME=$folder/home venv/bin/python read.py 2>errors || { cat errors; echo "changed: not as stated above"; exit 1; }
