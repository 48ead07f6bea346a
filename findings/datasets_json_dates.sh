#!/usr/bin/env bash
# A column of texts that all look like dates is read as times from JSON lines, and as text from csv.
#
# Versions: datasets 5.2.0, pyarrow 26.0.1, pandas 3.1.1, Python 3.11
# Expected: strings: JSON has no dates, and the values are quoted. One value that is no date changes the type of the
#   whole column. An id or a title of this form comes back as a datetime, and str() of it is another text.
# Seen on 2026-11-28 (what this script printed):
#   json, dates: timestamp[s], first '2026-01-05 00:00:00'
#   csv, dates: large_string, first '2026-01-05'
#   json, dates and a word: string, first '2026-01-05'
#   csv, dates and a word: large_string, first '2026-01-05'

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
import datasets

datasets.disable_progress_bars()
seen = {}
for name, ids in (("dates", ["2026-01-05", "2026-01-06"]), ("dates and a word", ["2026-01-05", "draft"])):
    stem = name.replace(" ", "_")
    Path(f"{stem}.jsonl").write_text("".join(json.dumps({"id": value}) + "\n" for value in ids))
    Path(f"{stem}.csv").write_text("id\n" + "\n".join(ids) + "\n")
    for kind, ending in (("json", "jsonl"), ("csv", "csv")):
        data = datasets.load_dataset(kind, data_files=f"{stem}.{ending}", split="train")
        seen[name, kind] = data.features["id"].dtype
        print(f"{kind}, {name}: {seen[name, kind]}, first {str(data[0]['id'])!r}")
if list(seen.values()) != ["timestamp[s]", "large_string", "string", "large_string"]:
    sys.exit("changed: other types than stated")
EOF
