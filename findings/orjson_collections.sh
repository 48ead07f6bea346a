#!/usr/bin/env bash
# While orjson reads one document of many small lists, Python's garbage collector runs hundreds of times.
#
# Versions: orjson 3.13.0, Python 3.11
# Expected: one call into native code, which the settings of Python's garbage collector do not slow down. Lists and
#   dicts count as allocations for it, so a body of token ids or vectors in lists is gone through again and again: the
#   time doubles or more, with the GIL held. Lists of numbers alone, however long, set off none.
# Seen on 2026-11-29 (what this script printed):
#   lists of one id: 713 collections, 0 with a threshold of a million, 3.2 times the time
#   one list of ids: 0 collections, 0 with a threshold of a million, 1.0 times the time

set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile orjson==3.13.0 || { echo "not installed"; exit 2; }
venv/bin/python - <<'EOF'
import gc
import sys
import time
import orjson

bodies = {"lists of one id": b"[" + b"[5]," * 499_999 + b"[5]]", "one list of ids": b"[" + b"5," * 999_999 + b"5]"}
runs = {}


def read(body):
    """Collections during a call, and its seconds."""
    gc.collect()
    before, started = sum(x["collections"] for x in gc.get_stats()), time.process_time()
    value = orjson.loads(body)
    taken = time.process_time() - started
    return sum(x["collections"] for x in gc.get_stats()) - before, taken


for name, body in bodies.items():
    default = [read(body) for _ in range(5)]
    before = gc.get_threshold()
    gc.set_threshold(1_000_000)
    raised = [read(body) for _ in range(5)]
    gc.set_threshold(*before)
    runs[name] = default[0][0], raised[0][0], min(x[1] for x in default) / min(x[1] for x in raised)
    print("{}: {} collections, {} with a threshold of a million, {:.1f} times the time".format(name, *runs[name]))
many, none, ratio = runs["lists of one id"]
if many < 300 or none or ratio < 1.3 or runs["one list of ids"][0]:
    sys.exit("changed: other numbers of collections than stated")
EOF
