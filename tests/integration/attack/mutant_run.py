"""A small run with a checkpoint, and its resumption, for mutated states of training (`mutants.py --resume`)."""

import shutil
from pathlib import Path

import torch
import transformers
from transformers import BertConfig

from contrastive_st import BertForCL, ContrastiveTrainer, ContrastiveTrainingArguments, DropoutPairCollator
from contrastive_st.data import train_wordpiece
from contrastive_st.tokens import token_ids

TEXTS = [f"the {a} {b} a {c}" for a in ("cat", "dog") for b in ("saw", "ate", "hid") for c in ("bird", "fish")]


def train(folder, steps, resume=False):
    """To so many steps, from the newest checkpoint of the folder with `resume`."""
    tokenizer = train_wordpiece(TEXTS, vocab_size=60, max_length=12)
    rows = [{"input_ids": ids} for ids in token_ids(tokenizer, TEXTS)]
    transformers.set_seed(1)
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=16,
    )  # fmt: skip
    args = ContrastiveTrainingArguments(
        str(folder), per_device_train_batch_size=4, max_steps=steps, learning_rate=1e-3, bf16=False, disable_tqdm=True,
        report_to="none", logging_strategy="no", save_strategy="steps", save_steps=2, save_total_limit=2,
        lr_scheduler_type="constant",
    )  # fmt: skip
    trainer = ContrastiveTrainer(
        BertForCL(config), args, train_dataset=rows, data_collator=DropoutPairCollator(tokenizer)
    )
    trainer.train(resume_from_checkpoint=resume)
    return {name: weight.clone() for name, weight in trainer.model.state_dict().items()}


def trained(folder):
    """A folder with the checkpoint of step 2."""
    train(folder, 2)
    for path in Path(folder).iterdir():
        if path.name.startswith("."):
            path.unlink() if path.is_file() else shutil.rmtree(path)
    return Path(folder)


_WHOLE = {}  # the weights of a run that was resumed from what was saved


def resume(folder):
    """Resume a mutant; where that ends well, the weights are finite, and those of the run from what was saved.

    Raises:
        AssertionError: other weights.
    """
    found = train(folder, 3, resume=True)
    assert all(bool(weight.isfinite().all()) for weight in found.values()), "weights that are not finite"
    if not _WHOLE:  # of the first call, which is that of the folder itself
        _WHOLE.update(found)
    assert all(torch.equal(found[name], weight) for name, weight in _WHOLE.items()), "other weights, and no word of it"
