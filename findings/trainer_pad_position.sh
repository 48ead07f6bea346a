#!/usr/bin/env bash
# The Trainer of transformers writes the tokenizer's pad id into the model's config. RoBERTa counts its positions from
# that id, so the folder that it saves computes something else than the model that it trained.
#
# Versions: transformers 5.23.0, accelerate 1.15.0, torch 2.13.0, Python 3.11
# Expected: a model with pad_token_id 1 (the default of RobertaConfig) and a tokenizer of one's own whose [PAD] is 0,
#   trained for a step at a rate of 1e-9 and saved, opens as it was. In memory it does stay as it was; the saved folder
#   says pad_token_id 0, and every position is one lower when it is opened. Only a line of the log names "pad_token_id".
#   A pad id that is equal in both, or an architecture with positions from 0 (BERT), is not concerned.
# Seen on 2026-11-30 (what this script printed):
#   bert: pad id in the saved config 0, in memory moved by 0.00, opened again differs by 0.00
#   roberta: pad id in the saved config 0, in memory moved by 0.00, opened again differs by 3.16

set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile --extra-index-url https://download.pytorch.org/whl/cpu \
    transformers==5.23.0 accelerate==1.15.0 torch==2.13.0 numpy==2.4.6 \
    || { echo "not installed"; exit 2; }
export HF_HUB_OFFLINE=1 HF_HOME="$folder/cache" CUDA_VISIBLE_DEVICES=
venv/bin/python -W ignore - 2>errors.txt <<'EOF' || { tail -3 errors.txt; exit 1; }
import sys
import torch
from transformers import (
    BertConfig, BertModel, BertTokenizerFast, DataCollatorWithPadding, PrinterCallback, ProgressCallback, RobertaConfig,
    RobertaModel, Trainer, TrainingArguments,
)


class Small(Trainer):
    def compute_loss(self, model, inputs, **others):
        return model(**inputs).last_hidden_state.square().mean()


tokenizer = BertTokenizerFast(vocab={word: number for number, word in enumerate(
    ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "cat", "dog", "sat"])})
tokenizer.model_input_names = ["input_ids", "attention_mask"]
texts = ["cat sat dog", "dog cat"]
batch = tokenizer(texts, padding=True, return_tensors="pt")
seen = []
for name, config, family in (("bert", BertConfig, BertModel), ("roberta", RobertaConfig, RobertaModel)):
    torch.manual_seed(0)
    sizes = dict(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, hidden_dropout_prob=0.0)
    model = family(config(vocab_size=len(tokenizer), max_position_embeddings=40, initializer_range=0.5, **sizes)).eval()

    def states(model):
        with torch.no_grad():
            return model.eval()(**batch).last_hidden_state

    before = states(model)
    arguments = TrainingArguments(name, max_steps=1, learning_rate=1e-9, report_to=[], use_cpu=True)
    trainer = Small(model, arguments, train_dataset=[dict(tokenizer(text)) for text in texts],
                    data_collator=DataCollatorWithPadding(tokenizer), processing_class=tokenizer)
    trainer.remove_callback(PrinterCallback)
    trainer.remove_callback(ProgressCallback)
    trainer.train()
    trainer.save_model(name)
    opened = family.from_pretrained(name)
    moved, differs = ((states(one) - before)[batch.attention_mask == 1].abs().max().item() for one in (model, opened))
    print(f"{name}: pad id in the saved config {opened.config.pad_token_id}, in memory moved by {moved:.2f}, "
          f"opened again differs by {differs:.2f}")
    seen.append((opened.config.pad_token_id, moved < 1e-4, differs > 0.1))
if seen != [(0, True, False), (0, True, True)]:
    sys.exit("changed: other pad ids or states than stated")
EOF
