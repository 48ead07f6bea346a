#!/usr/bin/env bash
# Dataset.from_generator gives the old rows when the file that the generator reads has changed.
#
# Versions: datasets 5.2.0, pyarrow 26.0.1, Python 3.11
# Expected: the generator runs again, as from_text does on a changed file. The cache knows the code of the generator
#   and gen_kwargs, not what it reads, so that new rows are seen only with another cache_dir, or with something in
#   gen_kwargs that changes with the file.
# Seen on 2026-11-28 (what this script printed):
#   file of 1: from_generator 1, from_text 1, with a changed argument 1
#   file of 3: from_generator 1, from_text 3, with a changed argument 3

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
from pathlib import Path
import datasets

datasets.disable_progress_bars()
file = Path("rows.txt")


def rows(path, changed=0):
    yield from ({"text": line} for line in Path(path).read_text().splitlines())


seen = []
for text in ("one\n", "one\ntwo\nthree\n"):
    file.write_text(text)
    by_generator = datasets.Dataset.from_generator(rows, gen_kwargs={"path": "rows.txt"})
    by_text = datasets.Dataset.from_text("rows.txt")
    keyed = datasets.Dataset.from_generator(rows, gen_kwargs={"path": "rows.txt", "changed": len(text)})
    seen.append((len(by_generator), len(by_text), len(keyed)))
    print(f"file of {len(text.split())}: from_generator {seen[-1][0]}, from_text {seen[-1][1]}, with a changed argument {seen[-1][2]}")
if seen != [(1, 1, 1), (1, 3, 3)]:
    sys.exit("changed: other numbers of rows than stated")
EOF
