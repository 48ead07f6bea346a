#!/usr/bin/env bash
# load_dataset of a folder leaves out files because another one's name begins with a name of a split.
#
# Versions: datasets 5.2.0, pandas 3.1.1, pyarrow 26.0.1, Python 3.11
# Expected: the rows of all files, or a line that names those that are left out. None of the names is that of a split.
# Seen on 2026-11-29 (what this script printed):
#   injuries.csv, nutrition.csv: {'train': 2}
#   injuries.csv, nutrition.csv, training.csv: {'train': 1}
#   backend.csv, dev-ops.csv: {'validation': 1}

set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile datasets==5.2.0 pandas==3.1.1 pyarrow==26.0.1 || { echo "not installed"; exit 2; }
cat > read.py <<'EOF'
import os
import sys

import datasets
import pandas as pd

datasets.disable_progress_bars()
expected = {"injuries nutrition": {"train": 2}, "injuries nutrition training": {"train": 1}, "backend dev-ops": {"validation": 1}}
same = True
for names, rows in expected.items():
    folder = names.replace(" ", "_")
    os.mkdir(folder)
    for name in names.split():
        pd.DataFrame({"question": [f"what of {name}"], "answer": ["so"]}).to_csv(f"{folder}/{name}.csv", index=False)
    seen = {split: len(own) for split, own in datasets.load_dataset(folder).items()}
    print(", ".join(sorted(os.listdir(folder))) + f": {seen}")
    same &= seen == rows
sys.exit(not same)
EOF
HF_HOME=$folder/home venv/bin/python read.py 2>errors || { cat errors; echo "changed: not as stated above"; exit 1; }
