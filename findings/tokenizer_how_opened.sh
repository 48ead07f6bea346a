#!/usr/bin/env bash
# A tokenizer that is opened from a folder and saved again has in tokenizer_config.json how it was opened: is_local, and
# local_files_only, which is true where the environment has HF_HUB_OFFLINE=1. Both stay in what is saved from there.
#
# Versions: transformers 5.23.0, tokenizers 0.23.3, Python 3.11
# Expected: tokenizer_config.json describes the tokenizer, so one that nobody changed is saved as it was, and checksums of
#   two folders tell whether their tokenizers are the same. They do not: the same program writes another file on a
#   machine that works offline.
# Seen on 2026-11-30 (what this script printed):
#   made: nothing more
#   opened and saved: is_local True, local_files_only False
#   opened and saved with HF_HUB_OFFLINE=1: is_local True, local_files_only True

set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile transformers==5.23.0 tokenizers==0.23.3 \
    || { echo "not installed"; exit 2; }
export HF_HOME="$folder/cache"
unset HF_HUB_OFFLINE TRANSFORMERS_OFFLINE
venv/bin/python -W ignore - <<'EOF'
import json, os, subprocess, sys
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

again = "from transformers import AutoTokenizer as A; import sys; A.from_pretrained('made').save_pretrained(sys.argv[1])"
backend = Tokenizer(models.WordLevel({"a": 0, "?": 1}, unk_token="?"))
PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="?").save_pretrained("made")
subprocess.run([sys.executable, "-c", again, "online"], check=True)
subprocess.run([sys.executable, "-c", again, "offline"], check=True, env={**os.environ, "HF_HUB_OFFLINE": "1"})
made, seen = json.load(open("made/tokenizer_config.json")), {}
for name, words in {"made": "made", "online": "opened and saved",
                    "offline": "opened and saved with HF_HUB_OFFLINE=1"}.items():
    config = json.load(open(f"{name}/tokenizer_config.json"))
    seen[name] = {key: value for key, value in sorted(config.items()) if key not in made or value != made[key]}
    print(f"{words}:", ", ".join(f"{key} {value}" for key, value in seen[name].items()) or "nothing more")
if seen["made"] or [seen[name].get("local_files_only") for name in ("online", "offline")] != [False, True]:
    sys.exit("changed: other keys than stated")
EOF
