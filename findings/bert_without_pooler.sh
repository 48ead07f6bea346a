#!/usr/bin/env bash
# A folder without the weights of a pooler opens with other weights each time, though its vectors are the same.
#
# Versions: transformers 5.23.0, sentence-transformers 6.2.0, torch 2.13.0, numpy 2.4.6, Python 3.11
# Expected: a folder with mean pooling, of a BERT that was saved without a pooler (as masked language models are), opens
#   as the same model each time, so that a hash of its weights can name it in a cache or beside an index.
# What happens: AutoModel and SentenceTransformer build the pooler anyway and draw its weights at random. The vectors do
#   not depend on them, but a hash of `state_dict()` does; and the draw moves torch's random state, which opening the
#   folder with a pooler does not.
# Seen on 2026-11-29 (what this script printed):
#   with a pooler: AutoModel 1 hash of 3, random state moved: False; SentenceTransformer 1 of 3, 1 vector
#   without a pooler: AutoModel 3 hashes of 3, random state moved: True; SentenceTransformer 3 of 3, 1 vector

set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile --extra-index-url https://download.pytorch.org/whl/cpu torch==2.13.0 \
    transformers==5.23.0 sentence-transformers==6.2.0 numpy==2.4.6 || { echo "not installed"; exit 2; }
cat > look.py <<'EOF'
import hashlib
import logging
from pathlib import Path

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.models import Pooling, Transformer
from transformers import AutoModel, BertConfig, BertModel, BertTokenizer

logging.disable(logging.WARNING)
words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "cat", "sat"]
Path("vocab.txt").write_text("\n".join(words))
tokenizer = BertTokenizer("vocab.txt")
config = BertConfig(vocab_size=8, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16)


def state_hash(model):
    parts = (name.encode() + tensor.numpy().tobytes() for name, tensor in sorted(model.state_dict().items()))
    return hashlib.sha256(b"".join(parts)).hexdigest()


for name, pooled in (("with", True), ("without", False)):
    torch.manual_seed(0)
    BertModel(config, add_pooling_layer=pooled).save_pretrained(name)
    tokenizer.save_pretrained(name)
    transformer = Transformer(name)
    SentenceTransformer(modules=[transformer, Pooling(16)], device="cpu").save(f"{name}_st")
    if not pooled:  # what a folder looks like whose weights come from a masked language model
        BertModel(config, add_pooling_layer=False).save_pretrained(f"{name}_st")
    torch.manual_seed(0)
    before = torch.get_rng_state()
    hashes = {state_hash(AutoModel.from_pretrained(name)) for _ in range(3)}
    moved = not torch.equal(before, torch.get_rng_state())
    opened = [SentenceTransformer(f"{name}_st", device="cpu") for _ in range(3)]
    vectors = {model.encode("a cat sat").tobytes() for model in opened}
    word = "hash" if len(hashes) == 1 else "hashes"
    print(f"{name} a pooler: AutoModel {len(hashes)} {word} of 3, random state moved: {moved};",
          f"SentenceTransformer {len({state_hash(x) for x in opened})} of 3, {len(vectors)} vector")
EOF
HF_HUB_OFFLINE=1 venv/bin/python look.py 2>/dev/null | tee seen.txt
cat > expected.txt <<'EOF'
with a pooler: AutoModel 1 hash of 3, random state moved: False; SentenceTransformer 1 of 3, 1 vector
without a pooler: AutoModel 3 hashes of 3, random state moved: True; SentenceTransformer 3 of 3, 1 vector
EOF
diff -q expected.txt seen.txt >/dev/null || { echo "changed: not as stated above"; exit 1; }
