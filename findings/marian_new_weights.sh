#!/usr/bin/env bash
# SentenceTransformer opens a Marian model with new random weights: a folder has other vectors each time it is opened.
#
# Versions: sentence-transformers 6.2.0, transformers 5.23.0, torch 2.13.0, Python 3.11
# Expected: the encoder of the folder, as of T5 and mT5, or an error. The class that sentence-transformers opens is the
#   bare encoder (MarianEncoder), for which no weight in the file has its name, so all of them are new. transformers
#   warns of missing weights, which is easy to overlook. The whole model, AutoModel, has the weights of the file.
# Seen on 2026-12-01 (what this script printed; vectors of one text, by the largest number in them):
#   MarianEncoder: two openings are 1.58 apart
#   encoder of AutoModel: 0.00 apart

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
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoModel, MarianConfig, MarianModel, PreTrainedTokenizerFast

words = {"<pad>": 0, "</s>": 1, "<unk>": 2, "a": 3, "cat": 4}
tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
names = dict(pad_token="<pad>", eos_token="</s>", unk_token="<unk>", model_max_length=20)
PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names).save_pretrained("marian")
layers = {f"{part}_{name}": value for part in ("encoder", "decoder")
          for name, value in (("layers", 2), ("attention_heads", 2), ("ffn_dim", 32))}
config = MarianConfig(vocab_size=5, d_model=16, max_position_embeddings=20, pad_token_id=0, eos_token_id=1,
                      decoder_start_token_id=0, init_std=0.5, **layers)
torch.manual_seed(0)
MarianModel(config).save_pretrained("marian")

openings = [SentenceTransformer("marian", device="cpu") for _ in range(2)]
kind = type(openings[0][0].auto_model).__name__
first, second = (model.encode(["a cat"]) for model in openings)
apart = abs(first - second).max() / abs(first).max()
print(f"{kind}: two openings are {apart:.2f} apart")
ids = torch.tensor([[3, 4]])
with torch.no_grad():
    first, second = (AutoModel.from_pretrained("marian").eval().encoder(ids).last_hidden_state for _ in range(2))
print(f"encoder of AutoModel: {(first - second).abs().max():.2f} apart")
if kind != "MarianEncoder" or apart < 0.1 or not torch.equal(first, second):
    sys.exit("changed: two openings of one folder agree, or of AutoModel they do not")
EOF
