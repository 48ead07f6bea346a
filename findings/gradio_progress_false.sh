#!/usr/bin/env bash
# gradio's Progress is false: `if progress:` skips the progress bar.
#
# Versions: gradio 6.31.0, Python 3.11
# Expected: an object that is given is true. Progress has __len__, which is 0 until it iterates, so that a function
#   with an optional bar (`progress=None`) needs `is not None`.
# Seen on 2026-11-28 (what this script printed):
#   bool of Progress: False len: 0

set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile gradio==6.31.0 \
    || { echo "not installed"; exit 2; }
export HF_HUB_OFFLINE=1 HF_HOME="$folder/cache" GRADIO_ANALYTICS_ENABLED=False
venv/bin/python -W ignore - <<'EOF'
import sys
import gradio

progress = gradio.Progress()
print("bool of Progress:", bool(progress), "len:", len(progress))
if bool(progress):
    sys.exit("changed: Progress is true")
EOF
