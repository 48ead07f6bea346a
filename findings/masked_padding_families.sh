#!/usr/bin/env bash
# An attention mask does not keep padding out of ConvBERT, YOSO and CANINE: the states of a text depend on how long the
# longest text of its batch is.
#
# Versions: transformers 5.23.0, torch 2.13.0, Python 3.11
# Expected: with an attention mask, the states of a text in a padded batch are those that it has alone, up to rounding,
#   as in BERT and BigBird. ConvBERT also convolves, over the padding after a text; YOSO's expected hashes give padding a
#   share of the attention; CANINE downsamples characters four at a time, and attends in blocks. None of them warns, and
#   libraries that sort texts by length hide it in bulk. Embeddings that do not depend on the batch need rows of one length.
# Seen on 2026-11-30 (what this script printed; states have a standard deviation of 1):
#   bert: at most 0.000 apart
#   big_bird: at most 0.000 apart
#   convbert: at most 0.006 apart
#   yoso: at most 0.044 apart
#   canine: at most 3.983 apart

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
from transformers import AutoConfig, AutoModel

FAMILIES = {
    "bert": {}, "big_bird": {"attention_type": "original_full"}, "convbert": {"head_ratio": 2}, "yoso": {}, "canine": {},
}
differences = {}
for name, more in FAMILIES.items():
    torch.manual_seed(0)
    sizes = dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32)
    config = AutoConfig.for_model(name, vocab_size=50, max_position_embeddings=130, **sizes, **more)
    model = AutoModel.from_config(config).eval()
    text, longer = torch.tensor([[2, 10, 11, 12, 13, 14, 3]]), torch.randint(5, 49, (1, 60))
    length = text.shape[1]
    batch, mask = torch.full((2, 60), config.pad_token_id or 0), torch.zeros(2, 60, dtype=torch.long)
    batch[0, :length], batch[1] = text, longer
    mask[0, :length] = mask[1] = 1
    with torch.no_grad():
        alone = model(input_ids=text, attention_mask=torch.ones_like(text)).last_hidden_state
        padded = model(input_ids=batch, attention_mask=mask).last_hidden_state[:1, :length]
    differences[name] = (alone - padded).abs().max().item()
    print(f"{name}: at most {differences[name]:.3f} apart")
apart = {name for name, difference in differences.items() if difference > 1e-3}
if apart != {"convbert", "yoso", "canine"} or max(differences["bert"], differences["big_bird"]) > 1e-5:
    sys.exit("changed: other families mix padding than stated")
EOF
