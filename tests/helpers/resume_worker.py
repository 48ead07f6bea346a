"""Runs cases of the resume test: each whole, killed in mid-epoch, and resumed; real processes, one import.

python resume_worker.py FOLDER PROCESSES CASE...

Every run forks PROCESSES children, so that only this process pays for importing torch; a killed run ends by SIGKILL.
"""

import itertools
import os
import signal
import sys
from pathlib import Path

import datasets
import torch
import transformers
from datasets import Dataset
from forks import ends, fork
from small_checkpoints import tiny_bert
from transformers import TrainerCallback

from contrastive_st import (
    BertForCL,
    ContrastiveTrainer,
    ContrastiveTrainingArguments,
    CoSENTLoss,
    DropoutPairCollator,
    InfoNCE,
    LabelledPairCollator,
    Mixture,
    MixtureCollator,
    MixtureLoss,
    SentenceCorpus,
    StaticEncoder,
    tokenize,
)
from contrastive_st.data import (
    Documents,
    NeighborPairCollator,
    NeighborPairs,
    TokenFile,
    train_subword_tokenizer,
    train_wordpiece,
)
from contrastive_st.training.optimizers import RowAdam

WORDS = "the cat sat on a mat and dog ran far away today rain fell over old town she reads long book"
TEXTS = [" ".join(pair) for pair in itertools.permutations(WORDS.split(), 2)][:52]
STEPS, KILLED = 17, 16  # an epoch is 13 batches for one process, 6 for two; a checkpoint comes every 5 steps


def data(case, tokenizer, folder):
    if case.startswith("mixture"):
        scored = Dataset.from_dict({"a": TEXTS[:26], "b": TEXTS[26:], "score": [i % 5 / 4 for i in range(26)]})
        rows = {
            "texts": data(case.removeprefix("mixture").lstrip("-"), tokenizer, folder),
            "scores": tokenize(scored, tokenizer, 16),
        }
        return Mixture(rows, {"texts": 2, "scores": 1})
    if case.startswith("stream"):
        rows = Dataset.from_dict({"text": TEXTS}).to_iterable_dataset(num_shards=4)
        rows = rows.map(lambda row: {"input_ids": tokenizer(row["text"])["input_ids"]}, remove_columns=["text"])
        return rows.shuffle(seed=1, buffer_size=20)
    if case.startswith("corpus"):
        path = folder / "text.txt"
        own = {"run_length": 2} if "runs" in case else {"shuffle_buffer": 1024 * ("mixed" in case)}
        return SentenceCorpus(path, tokenizer, 16, **own)
    if case.startswith("neighbors"):
        documents = Documents.read([folder / "documents.txt"], held_out=0)
        return NeighborPairs(TokenFile.write(documents, tokenizer, 16))
    return tokenize(Dataset.from_dict({"text": TEXTS}), tokenizer, 16)


class Kill(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == KILLED:
            os.kill(os.getpid(), signal.SIGKILL)


def settings(case):
    changes = {"chunk_size": 3} if "cached" in case else {}
    if case.startswith("neighbors"):
        changes["max_grad_norm"] = 0.0
    if "workers" in case:
        changes["dataloader_num_workers"] = 2
    if "accumulated" in case:
        changes["gradient_accumulation_steps"] = 2
    return changes


def train(case, folder, run):
    torch.manual_seed({"whole": 1, "killed": 1, "resumed": 99}[run])  # a new process has another random state
    own_words = case.startswith("neighbors")  # as examples/run_static.py
    tokenizer = train_subword_tokenizer(TEXTS, 80) if own_words else train_wordpiece(TEXTS, 80, max_length=16)
    transformers.set_seed(1)
    collator, loss = DropoutPairCollator(tokenizer), InfoNCE()
    if case.startswith("mixture"):
        collator = MixtureCollator({"texts": collator, "scores": LabelledPairCollator(tokenizer)})
        loss = MixtureLoss({"texts": loss, "scores": CoSENTLoss()})
    model, optimizer = BertForCL(tiny_bert(tokenizer), loss=loss), None
    if own_words:
        collator = NeighborPairCollator(tokenizer)
        model = StaticEncoder.from_table(torch.randn(len(tokenizer), 8), loss="document_info_nce")
        model.sparse_gradient = True
        optimizer = RowAdam(model.parameters(), lr=1e-3)
    args = ContrastiveTrainingArguments(
        str(folder / case / ("whole" if run == "whole" else "killed")), per_device_train_batch_size=4, max_steps=STEPS,
        learning_rate=1e-3, bf16=False, disable_tqdm=True, report_to="none", logging_steps=5,
        save_strategy="steps", save_steps=5, **settings(case),
    )  # fmt: skip
    trainer = ContrastiveTrainer(
        model, args, train_dataset=data(case, tokenizer, folder),
        data_collator=collator, callbacks=[Kill()] if run == "killed" else [], optimizers=(optimizer, None),
    )  # fmt: skip
    trainer.train(resume_from_checkpoint=run == "resumed")
    torch.save(trainer.model.state_dict(), folder / f"{case}-{run}-{os.environ.get('RANK', 0)}.pt")


def main(folder, processes, *cases):
    torch.set_num_threads(1)
    datasets.config.HF_DATASETS_CACHE = folder / "cache"
    datasets.disable_progress_bars()
    (folder / "text.txt").write_text("\n".join(TEXTS))
    (folder / "documents.txt").write_text("\n\n".join("\n".join(TEXTS[i : i + 4]) for i in range(0, 52, 4)))
    for case, run in itertools.product(cases, ("whole", "killed", "resumed")):
        ended = ends(fork(processes, lambda rank, case=case, run=run: train(case, folder, run)))
        assert -signal.SIGKILL in ended if run == "killed" else ended == [0] * processes


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
