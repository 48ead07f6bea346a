#!/usr/bin/env bash
# With gradient accumulation, the Trainer of transformers adds the losses of a model whose forward takes **kwargs, and
# averages those of the same model without them: 4 accumulated batches are steps four times as long.
#
# Versions: transformers 5.23.0, accelerate 1.15.0, torch 2.13.0, Python 3.11
# Expected: 4 batches of 4 rows are one of 16. A forward with **kwargs is taken for one that divides by
#   num_items_in_batch, so that nobody divides its loss by the accumulated batches, neither for the step nor in the log.
#   accepts_loss_kwargs = False in the class of the model mends it.
# Seen on 2026-11-30 (what this script printed):
#   forward without, 1 batches of 16: step 0.0065, loss 0.43
#   forward without, 4 batches of 4: step 0.0065, loss 0.43
#   forward with **kwargs, 1 batches of 16: step 0.0065, loss 0.43
#   forward with **kwargs, 4 batches of 4: step 0.0260, loss 1.70

set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile --extra-index-url https://download.pytorch.org/whl/cpu torch==2.13.0 transformers==5.23.0 \
    accelerate==1.15.0 numpy==2.4.6 \
    || { echo "not installed"; exit 2; }
export HF_HUB_OFFLINE=1 HF_HOME="$folder/cache"
venv/bin/python -W ignore - 2> errors <<'EOF' || { code=$?; tail -n 1 errors; exit $code; }
import sys
import torch
from transformers import PrinterCallback, Trainer, TrainingArguments


class Plain(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(4, 1)

    def forward(self, x, labels=None):
        scores = self.linear(x)[:, 0]
        return {"loss": torch.nn.functional.mse_loss(scores, labels), "logits": scores}


class Open(Plain):
    def forward(self, x, labels=None, **kwargs):
        return super().forward(x, labels)


torch.manual_seed(1)
rows = [{"x": torch.randn(4), "labels": torch.randn(())} for _ in range(16)]
steps = {}
for kind in (Plain, Open):
    for batch, accumulated in ((16, 1), (4, 4)):
        model = kind()
        before = model.linear.weight.detach().clone()
        options = TrainingArguments("out", per_device_train_batch_size=batch, gradient_accumulation_steps=accumulated, max_steps=1, optim="sgd",
                                    learning_rate=0.01, max_grad_norm=0, lr_scheduler_type="constant", report_to=[], save_strategy="no",
                                    use_cpu=True, disable_tqdm=True, logging_strategy="no")
        trainer = Trainer(model, options, train_dataset=rows)
        trainer.remove_callback(PrinterCallback)
        loss = trainer.train().training_loss
        steps[kind, accumulated] = (model.linear.weight - before).norm().item()
        print(f"{'forward with **kwargs' if kind is Open else 'forward without'}, {accumulated} batches of {batch}: step {steps[kind, accumulated]:.4f}, loss {loss:.2f}")
if abs(steps[Plain, 4] / steps[Plain, 1] - 1) > 0.01 or abs(steps[Open, 4] / steps[Open, 1] - 4) > 0.01:
    sys.exit("changed: another step than stated")
EOF
