#!/usr/bin/env bash
# tantivy leaves words of 40 bytes and more out of the index: a Chinese sentence of 14 characters is not found by
# itself.
#
# Versions: tantivy 0.27.0, Python 3.11
# Expected: the sentence is found, as the shorter one is. The default tokenizer and `en_stem` cut at blanks and
#   signs, so that a Chinese clause is one word, and drop long words without a line; the same happens to a German
#   compound, an address or a hash of 40 bytes. The query loses the word too.
# Seen on 2026-11-28 (what this script printed):
#   6 characters, 18 bytes: 1 documents found
#   14 characters, 42 bytes: 0 documents found
#   43 characters, 43 bytes: 0 documents found
#   39 characters, 39 bytes: 1 documents found
#   40 characters, 40 bytes: 0 documents found

set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile tantivy==0.27.0 \
    || { echo "not installed"; exit 2; }
export HF_HUB_OFFLINE=1 HF_HOME="$folder/cache"
venv/bin/python -W ignore - <<'EOF'
import sys
import tantivy

texts = ["今天天气很好", "我们去公园散步然后回家吃饭吧", "the Donaudampfschifffahrtsgesellschaftskapitaen met", "x" * 39, "y" * 40]
schema = tantivy.SchemaBuilder().add_text_field("body", tokenizer_name="default").build()
index = tantivy.Index(schema)
writer = index.writer(num_threads=1)
for text in texts:
    writer.add_document(tantivy.Document(body=text))
writer.commit()
index.reload()
found = {}
for word in (texts[0], texts[1], texts[2].split()[1], texts[3], texts[4]):
    hits = index.searcher().search(index.parse_query(word, ["body"]), 5).hits
    found[word] = len(hits)
    print(len(word), "characters,", len(word.encode()), "bytes:", len(hits), "documents found")
if list(found.values()) != [1, 0, 0, 1, 0]:
    sys.exit("changed: other words are found than stated")
EOF
