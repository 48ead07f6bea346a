#!/usr/bin/env bash
# With a CNN module, a text has another vector in SentenceTransformer among longer texts than alone.
#
# Versions: sentence-transformers 6.2.0, transformers 5.23.0, torch 2.13.0, Python 3.11
# Expected: vectors of texts that are encoded together are those that each text has alone, up to rounding, as with
#   Pooling alone. The convolution of CNN also reads the states of the padding after a text, which the model
#   gives for its padding tokens, so the vector depends on whether there is padding. To be sure, use batch_size=1.
# Seen on 2026-12-01 (what this script printed; vectors of a short text, by the largest number in them):
#   Pooling: 0.000 apart
#   CNN: 0.270 apart

set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile --extra-index-url https://download.pytorch.org/whl/cpu \
    sentence-transformers==6.2.0 transformers==5.23.0 torch==2.13.0 numpy==2.4.6 \
    || { echo "not installed"; exit 2; }
export HF_HUB_OFFLINE=1 HF_HOME="$folder/cache" CUDA_VISIBLE_DEVICES=
venv/bin/python -W ignore - 2>errors.txt <<'EOF' || { tail -3 errors.txt; exit 1; }
import sys
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import CNN, Pooling, Transformer
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

words = {"[PAD]": 0, "[UNK]": 1, "a": 2, "cat": 3}
tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
names = dict(pad_token="[PAD]", unk_token="[UNK]", model_max_length=20)
PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names).save_pretrained("bert")
torch.manual_seed(0)
sizes = dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32)
BertModel(BertConfig(vocab_size=4, max_position_embeddings=20, **sizes)).save_pretrained("bert")

modules = {"Pooling": [], "CNN": [CNN(16, out_channels=8, kernel_sizes=[1, 3])]}
differences = {}
for name, between in modules.items():
    pooling = Pooling(16, pooling_mode="mean")
    model = SentenceTransformer(modules=[Transformer("bert"), *between, pooling], device="cpu")
    alone, among = model.encode(["a cat"])[0], model.encode(["a cat", "a cat " * 8])[0]
    differences[name] = abs(alone - among).max() / abs(alone).max()
    print(f"{name}: {differences[name]:.3f} apart")
if differences["CNN"] < 0.01 or differences["Pooling"] > 1e-5:
    sys.exit("changed: CNN does not read padding, or Pooling alone does")
EOF
