#!/usr/bin/env bash
# class_encode_column gives the same label other numbers in train and test of one DatasetDict, and puts the number
# 10 before 2.
#
# Versions: datasets 5.2.0, pyarrow 26.0.1, Python 3.11
# Expected: one list of names for all splits of the DatasetDict, and numbers in their order. Each split is encoded
#   alone, and names are sorted as strings. A classifier that is trained on the one is evaluated on wrong labels of
#   the other, without an error.
# Seen on 2026-11-28 (what this script printed):
#   number of 'good': {'train': 0, 'test': 1}
#   numbers of 1, 2, 10: [0, 2, 1] ['1', '10', '2']

set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile datasets==5.2.0 pandas==3.1.1 pyarrow==26.0.1 \
    || { echo "not installed"; exit 2; }
export HF_HUB_OFFLINE=1 HF_HOME="$folder/cache"
venv/bin/python -W ignore - <<'EOF'
import sys
import datasets

datasets.disable_progress_bars()
splits = datasets.DatasetDict(
    train=datasets.Dataset.from_dict({"label": ["good", "poor"]}),
    test=datasets.Dataset.from_dict({"label": ["fair", "good", "poor"]}),
).class_encode_column("label")
number = {name: split.features["label"].str2int("good") for name, split in splits.items()}
print("number of 'good':", number)
stars = datasets.Dataset.from_dict({"label": [1, 2, 10]}).class_encode_column("label")
print("numbers of 1, 2, 10:", stars["label"][:], stars.features["label"].names)
if number != {"train": 0, "test": 1} or stars["label"][:] != [0, 2, 1]:
    sys.exit("changed: other numbers than stated")
EOF
