#!/usr/bin/env bash
# sentence-transformers 6 puts each text into a chat if the tokenizer of the base has a chat template.
#
# Versions: sentence-transformers 6.2.0, transformers 5.23.0, torch 2.13.0, Python 3.11
# Expected: `encode` of a text gives the model the tokens of that text. A chat template is for chats: instruct models have
#   one, and base models more and more. Here its presence alone decides: `Transformer(base)` records the modality
#   "message", and then every text, in training too, is a message of a user, and a prompt a message of the system. The
#   same weights with the same tokenizer without the template give other vectors. The saved folder says so in
#   sentence_bert_config.json; who opens it by its pooling alone has other vectors.
# Seen on 2026-11-30 (what this script printed):
#   without a chat template: 'a cat', saved with ['text']
#   with one: '<|im_start|>user: a cat<|im_end|>', saved with ['message', 'text']
#   cosine of both vectors of one text: 0.0

set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile --extra-index-url https://download.pytorch.org/whl/cpu torch==2.13.0 \
    sentence-transformers==6.2.0 transformers==5.23.0 || { echo "not installed"; exit 2; }
export HF_HUB_OFFLINE=1 HF_HOME="$folder/cache"
venv/bin/python -W ignore - <<'EOF' 2>/dev/null
import json
import sys

import torch
from sentence_transformers import SentenceTransformer, models
from tokenizers import Tokenizer, decoders, pre_tokenizers, trainers
from tokenizers.models import BPE
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2Model

bytes_ = Tokenizer(BPE())
bytes_.pre_tokenizer, bytes_.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
marks = ["<|end|>", "<|im_start|>", "<|im_end|>"]
alphabet = pre_tokenizers.ByteLevel.alphabet()
bytes_.train_from_iterator([], trainers.BpeTrainer(special_tokens=marks, initial_alphabet=alphabet, show_progress=False))
tokenizer = PreTrainedTokenizerFast(tokenizer_object=bytes_, eos_token=marks[0], pad_token=marks[0])
torch.manual_seed(0)
shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2}
model = Qwen2Model(Qwen2Config(vocab_size=len(tokenizer), num_key_value_heads=1, **shape))
template = "{% for m in messages %}<|im_start|>{{ m['role'] }}: {{ m['content'] }}<|im_end|>{% endfor %}"
vectors = []
for name, written in (("without a chat template", None), ("with one", template)):
    tokenizer.chat_template = written
    base = f"base {name}"
    model.save_pretrained(base)
    tokenizer.save_pretrained(base)
    encoder = SentenceTransformer(modules=[models.Transformer(base), models.Pooling(32, pooling_mode="lasttoken")])
    ids = encoder.preprocess(["a cat"])["input_ids"][0]
    vectors.append(encoder.encode("a cat"))
    encoder.save(name)
    with open(f"{name}/sentence_bert_config.json") as file:
        modalities = sorted(json.load(file)["modality_config"])
    print(f"{name}: {encoder.tokenizer.decode(ids)!r}, saved with {modalities}")
first, second = map(torch.from_numpy, vectors)
cosine = torch.cosine_similarity(first, second, dim=0).item()
print(f"cosine of both vectors of one text: {cosine:.1f}")
if not (cosine < 0.99 and modalities == ["message", "text"]):
    sys.exit("changed: other tokens than stated")
EOF
