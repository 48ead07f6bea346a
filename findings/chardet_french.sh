#!/usr/bin/env bash
# chardet takes short French in cp1252 for MacCyrillic.
#
# Versions: chardet 7.7.0, Python 3.11.7
# Expected: Windows-1252, as for longer texts; decoded as MacCyrillic the accents become Cyrillic letters.
# Seen on 2026-11-28 (what this script printed):
#   23 characters: MacCyrillic, read as 'Crиme brыlйe'
#   22 characters: MacCyrillic, read as '«a va trиs b'
#   53 characters: Windows-1252, read as 'Crème brûlée'

set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet chardet==7.7.0 || { echo "not installed"; exit 2; }
export HF_HUB_OFFLINE=1 HF_HOME="$folder/cache"
venv/bin/python -W ignore - <<'EOF'
import sys
import chardet

found = []
for text in ("Crème brûlée\nà la crème", "Ça va très bien à côté", "Crème brûlée et café\nUne tarte à la crème très légère"):
    found.append(chardet.detect(text.encode("cp1252"))["encoding"])
    print(f"{len(text)} characters: {found[-1]}, read as {text.encode('cp1252').decode(found[-1])[:12]!r}")
if found != ["MacCyrillic", "MacCyrillic", "Windows-1252"]:
    sys.exit("changed: chardet finds other encodings than stated")
EOF
