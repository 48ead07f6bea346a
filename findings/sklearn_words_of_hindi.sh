#!/usr/bin/env bash
# The words of scikit-learn's CountVectorizer and TfidfVectorizer are pieces in Hindi and Tamil, or none.
#
# Versions: scikit-learn 1.9.1, numpy 2.4.6, tokenizers 0.23.3, Python 3.11.7
# Expected: words, as tokenizers' Whitespace with the same `\w+` finds: Python's re does not count vowel signs as
#   \w, the regular expressions of tokenizers do.
# Seen on 2026-11-28 (what this script printed):
#   हिन्दी भाषा: scikit-learn [], tokenizers ['हिन्दी', 'भाषा']
#   தமிழ் மொழி: scikit-learn ['தம'], tokenizers ['தமிழ்', 'மொழி']
#   plain words: scikit-learn ['plain', 'words'], tokenizers ['plain', 'words']

set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet scikit-learn==1.9.1 numpy==2.4.6 tokenizers==0.23.3 || { echo "not installed"; exit 2; }
export HF_HUB_OFFLINE=1 HF_HOME="$folder/cache"
venv/bin/python -W ignore - <<'EOF'
import sys
from sklearn.feature_extraction.text import CountVectorizer
from tokenizers import pre_tokenizers

split = CountVectorizer().build_tokenizer()
seen = {}
for text in ("हिन्दी भाषा", "தமிழ் மொழி", "plain words"):
    seen[text] = split(text), [word for word, _ in pre_tokenizers.Whitespace().pre_tokenize_str(text)]
    print(f"{text}: scikit-learn {seen[text][0]}, tokenizers {seen[text][1]}")
if any((ours == text.split(), theirs == text.split()) != (text == "plain words", True) for text, (ours, theirs) in seen.items()):
    sys.exit("changed: the words are as of the other, or otherwise cut than stated")
EOF
