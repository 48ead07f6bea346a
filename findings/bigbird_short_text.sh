#!/usr/bin/env bash
# BigBird encodes long texts otherwise once it has encoded a short one.
#
# Versions: transformers 5.23.0, torch 2.13.0, Python 3.11
# Expected: in evaluation mode, the states of a text depend on the text alone. With attention in blocks, the default, a
#   batch of at most (5 + 2 * num_random_blocks) * block_size tokens (704 with the default sizes) is read with full
#   attention, and so is every batch after it, for as long as the model is open. A warning says so once, and
#   config.attention_type still says block_sparse. So vectors depend on the order of the texts, and a model that is
#   opened again does not give those that it gave before. To be sure, call model.set_attention_type before each pass.
# Seen on 2026-12-01 (what this script printed; states have a standard deviation of 1):
#   a long text again: 0.000 apart
#   after a short text: 0.627 apart
#   attention: block_sparse in the config, original_full in the model

set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile --extra-index-url https://download.pytorch.org/whl/cpu \
    transformers==5.23.0 torch==2.13.0 numpy==2.4.6 \
    || { echo "not installed"; exit 2; }
export HF_HUB_OFFLINE=1 HF_HOME="$folder/cache" CUDA_VISIBLE_DEVICES=
venv/bin/python -W ignore - 2>errors.txt <<'EOF' || { tail -3 errors.txt; exit 1; }
import sys
import torch
from transformers import BigBirdConfig, BigBirdModel

torch.manual_seed(0)
sizes = dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32)
config = BigBirdConfig(vocab_size=50, max_position_embeddings=512, block_size=8, num_random_blocks=2, **sizes)
model = BigBirdModel(config).eval()
with torch.no_grad():
    for weight in model.parameters():  # those of a new model are so small that attention hardly matters
        weight.add_(torch.randn_like(weight) / 4)
long, short = torch.randint(5, 49, (1, 200)), torch.randint(5, 49, (1, 10))


def states(ids):
    with torch.no_grad():
        return model(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state


first, again = states(long), states(long)
states(short)
after = states(long)
differences = [(x - first).abs().max().item() for x in (again, after)]
print(f"a long text again: {differences[0]:.3f} apart")
print(f"after a short text: {differences[1]:.3f} apart")
print(f"attention: {model.config.attention_type} in the config, {model.attention_type} in the model")
model.set_attention_type("block_sparse")
if differences[0] or differences[1] < 0.01 or model.config.attention_type != "block_sparse":
    sys.exit("changed: a short text does not change how later ones are read")
if not torch.equal(states(long), first):
    sys.exit("changed: set_attention_type does not undo it")
EOF
