"""Train on rows that no batch of all processes divides: the weights after every epoch, of each way of training."""

import os

import numpy as np
import torch
from small_checkpoints import tiny_bert
from small_worker import TOKENIZER, ids

from contrastive_st import BertForCL, ContrastiveTrainer, ContrastiveTrainingArguments
from contrastive_st.data import LabelledPairCollator, NLITripletCollator
from contrastive_st.losses import CoSENTLoss, InfoNCE

#: The collator, the loss, and options of the trainer
WAYS = {
    "plain": (NLITripletCollator, InfoNCE(), {}),
    "chunks and queue": (NLITripletCollator, InfoNCE(), {"chunk_size": 2, "momentum_queue": 6}),
    "accumulated scores": (LabelledPairCollator, CoSENTLoss(), {"gradient_accumulation_steps": 2, "chunk_size": 3}),
}


def trained(way, count, folder):
    """The weights after two epochs of `count` rows, in batches of 8."""
    collator, loss, options = WAYS[way]
    views = 3 if collator is NLITripletCollator else 2
    rows = [{"input_ids": [ids(i, view) for view in range(views)], "score": i % 5 / 4} for i in range(count)]
    torch.manual_seed(0)
    model = BertForCL(tiny_bert(TOKENIZER, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0), loss=loss)
    args = ContrastiveTrainingArguments(
        f"{folder}/{way} {count}", per_device_train_batch_size=8 // int(os.environ.get("WORLD_SIZE", 1)),
        num_train_epochs=2, bf16=False,
        optim="sgd", learning_rate=0.05, report_to="none", disable_tqdm=True, save_strategy="no", logging_steps=1,
        dataloader_drop_last=False, **options,
    )  # fmt: skip
    trainer = ContrastiveTrainer(model, args, train_dataset=rows, data_collator=collator(TOKENIZER))
    trainer.train()
    weights = {name: weight.numpy() for name, weight in trainer.core.state_dict().items()}
    logged = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    return {**weights, "logged": np.array(logged)}


def main(folder):
    return {(way, count): trained(way, count, folder) for way in WAYS for count in (19, 17)}
