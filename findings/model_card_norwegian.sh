#!/usr/bin/env bash
# The language `no` of a model card is read as False.
#
# Versions: huggingface_hub 2.4.0, Python 3.11.7
# Expected: the code of Norwegian; the YAML reader takes it for the word "no", unless the card quotes it, as
#   ModelCardData.to_yaml does.
# Seen on 2026-11-28 (what this script printed):
#   written by hand: [False, 'en']
#   written by ModelCardData: ['no', 'en']

set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet huggingface_hub==2.4.0 || { echo "not installed"; exit 2; }
export HF_HUB_OFFLINE=1 HF_HOME="$folder/cache"
venv/bin/python -W ignore - <<'EOF'
import sys
from huggingface_hub import ModelCard, ModelCardData

plain = ModelCard("---\nlanguage:\n- no\n- en\n---\n# x\n").data.language
quoted = ModelCard("---\n" + ModelCardData(language=["no", "en"]).to_yaml() + "\n---\n# x\n").data.language
print("written by hand:", plain)
print("written by ModelCardData:", quoted)
if plain != [False, "en"] or quoted != ["no", "en"]:
    sys.exit("changed: other languages than stated")
EOF
