#!/usr/bin/env bash
# chardet takes short French in cp1252 for MacCyrillic.
#
# Versions: chardet 7.7.0, Python 3.11
# Expected: Windows-1252, as for longer French: of these letters, cp1252 gives words of Latin script and MacCyrillic
#   words of two scripts.
# Seen on 2026-11-28 (what this script printed):
#   MacCyrillic 0.06 'Crиme brыlйe\nа la crиme'
#   MacCyrillic 0.09 '«a va trиs bien а cфtй'
#   Windows-1252 0.08 'Crème brûlée et café\nUne tarte à la crème très légère'

set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile chardet==7.7.0 \
    || { echo "not installed"; exit 2; }
export HF_HUB_OFFLINE=1 HF_HOME="$folder/cache"
venv/bin/python -W ignore - <<'EOF'
import sys
import chardet

texts = ["Crème brûlée\nà la crème", "Ça va très bien à côté", "Crème brûlée et café\nUne tarte à la crème très légère"]
seen = []
for text in texts:
    guess = chardet.detect(text.encode("cp1252"))
    seen.append(guess["encoding"])
    print(guess["encoding"], round(guess["confidence"], 2), repr(text.encode("cp1252").decode(guess["encoding"])))
if seen != ["MacCyrillic", "MacCyrillic", "Windows-1252"]:
    sys.exit("changed: other encodings than stated")
EOF
