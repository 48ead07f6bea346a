"""Train each family of rows and collator on few rows: what happened, in a word or a line; also in several processes."""

import os
from pathlib import Path

import numpy as np
import torch
from small_checkpoints import tiny_bert

from contrastive_st import BertForCL, ContrastiveTrainer, ContrastiveTrainingArguments, InputError
from contrastive_st.data import (
    ContextWindowCollator,
    DropoutPairCollator,
    LabelledPairCollator,
    Mixture,
    MixtureCollator,
    PairCollator,
    SentenceCorpus,
    TeacherCollator,
    TeacherRows,
    train_wordpiece,
)
from contrastive_st.losses import CoSENTLoss, InfoNCE, MixtureLoss, parse_loss

WORDS = [f"w{i}" for i in range(40)]
TOKENIZER = train_wordpiece([" ".join(WORDS)] * 3, vocab_size=90, max_length=16)
FAMILIES = ["dropout pairs", "pairs", "labelled", "windows", "teacher", "teacher in order", "mixture"]


def ids(number, seed=0):
    return np.random.default_rng((number, seed)).integers(5, len(TOKENIZER), 4).tolist()


def family_of(name, count, folder):
    """Rows, collator and loss."""
    singles = [{"input_ids": ids(i)} for i in range(count)]
    pairs = [{"input_ids": [ids(i), ids(i, 1)]} for i in range(count)]
    scored = [{**row, "score": i % 5 / 4} for i, row in enumerate(pairs)]
    if name == "dropout pairs":
        return singles, DropoutPairCollator(TOKENIZER), InfoNCE()
    if name == "pairs":
        return pairs, PairCollator(TOKENIZER), InfoNCE()
    if name == "labelled":
        return scored, LabelledPairCollator(TOKENIZER), CoSENTLoss()
    if name == "windows":
        path = Path(folder, "text.txt")
        words = np.random.default_rng(0).choice(WORDS, (count, 4))
        path.write_text("\n".join(" ".join(row) for row in words))
        loss = parse_loss({"loss": "targets", "targets": "window"})
        return SentenceCorpus(path, TOKENIZER, 8), ContextWindowCollator(TOKENIZER), loss
    if name.startswith("teacher"):
        order = np.arange(count) if "order" in name else None
        vectors = np.random.default_rng(0).normal(size=(count, 6)).astype(np.float32)
        rows = TeacherRows([row["input_ids"] for row in singles], vectors, order)
        return rows, TeacherCollator(TOKENIZER), parse_loss({"loss": "relational_distillation"})
    rows = Mixture({"pairs": pairs, "scores": scored})
    collators = {"pairs": PairCollator(TOKENIZER), "scores": LabelledPairCollator(TOKENIZER)}
    return rows, MixtureCollator(collators), MixtureLoss({"pairs": InfoNCE(), "scores": CoSENTLoss()})


def run_family(name, count, folder, batch=256):
    torch.manual_seed(0)
    rows, collator, loss = family_of(name, count, folder)
    config = tiny_bert(TOKENIZER)
    args = ContrastiveTrainingArguments(
        str(Path(folder, "out")), per_device_train_batch_size=batch, num_train_epochs=1, max_steps=-1,
        bf16=False, disable_tqdm=True, report_to="none", save_strategy="no", warmup_steps=0.1, learning_rate=1e-3,
    )  # fmt: skip
    model = BertForCL(config, loss=loss)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    try:
        ContrastiveTrainer(model, args, train_dataset=rows, data_collator=collator).train()
    except InputError as error:
        return f"InputError: {error}"
    same = all(torch.equal(before[name], weight) for name, weight in model.state_dict().items())
    return "nothing changed" if same else "trained"


def main(folder):
    outcomes = {}
    for name in FAMILIES:
        for count in (1, 60):
            own = Path(folder, os.environ["RANK"], f"{name} {count}")
            own.mkdir(parents=True)
            outcomes[f"{name} {count}"] = run_family(name, count, own, batch=16)
    return outcomes
