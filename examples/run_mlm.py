"""Pre-train a small BERT on your own text by masked language modelling, from which `simcse` can start.

    accelerate launch examples/run_mlm.py --train_file wikipedia.parquet --output_dir out/mlm
    contrastive-st train simcse --train_file wikipedia.parquet --model_name_or_path out/mlm --pooling mean

With `--model_name_or_path` it continues from a BERT, with its tokenizer and all of its layers or the first ones.
Without a file it reads the Python documentation of this machine, offline. The settings are those that made the small
encoder of docs/simcse.md; those of BERT (Devlin et al. 2018: a million steps of 256 blocks of 512 tokens) are for a
larger one.

Sentences are packed into blocks without padding. Dropout is off, since one pass over a large text does not overfit; the
saved config keeps the usual 0.1, which unsupervised SimCSE needs. The head is computed only for the masked tokens.
"""

import itertools
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import torch
from annotated_types import Ge
from datasets import Dataset
from transformers import (
    BertForMaskedLM,
    DataCollatorForLanguageModeling,
    PreTrainedTokenizerBase,
)

from contrastive_st import ContrastiveTrainingArguments, InputError, read_texts, run, scripts, train_wordpiece
from contrastive_st.data import installed_docs, split_pairs
from contrastive_st.data.docs_sets import texts_of
from contrastive_st.errors import about
from contrastive_st.files.folders import WEIGHTS, local_folder
from contrastive_st.models.auto import load_config, load_tokenizer
from contrastive_st.models.checkpoint import Checkpoint
from contrastive_st.models.saving import stored_dtype, weights_as
from contrastive_st.options import Count, CountOrZero, option
from contrastive_st.scripts.arguments import ScriptArguments
from contrastive_st.training.checkpoints import CheckpointTrainer
from contrastive_st.training.trainer import Learning


@dataclass
class MLMArguments(ScriptArguments):
    """Data and model of the run."""

    train_file: str | None = option(
        "Sentences in order: .txt, .csv, .json(l), .parquet or a Hub data set. Without it: the "
        "documentation of the installed Python packages."
    )
    max_train_samples: Count | None = option("Train only on this many sentences, the first ones.")
    model_name_or_path: str | None = option("BERT to continue from; by default from scratch.")
    vocab_size: Count | None = option(
        "Vocabulary size of a BERT from scratch; by default 16000. The word pieces are learned from every fourth "
        "sentence."
    )
    block_size: Annotated[int, Ge(4)] = option("Number of tokens per block.", default=64)
    num_layers: CountOrZero | None = option("Number of layers; by default 3, or all of the BERT to continue from.")
    hidden_size: Count | None = option("Hidden size of a BERT from scratch; by default 256.")

    def conflicts(self) -> Iterator[str]:
        """Yield sizes of a new BERT with one to continue from."""
        if self.model_name_or_path:
            yield from self.unused("with --model_name_or_path", "vocab_size", "hidden_size")


DEFAULTS = {
    "output_dir": "out/mlm",
    "per_device_train_batch_size": 64,
    "learning_rate": 1e-3,
    "warmup_steps": 200,
    "weight_decay": 0.01,
    "max_steps": 3000,
    "logging_steps": 100,
    "save_steps": 500,
    "save_total_limit": 1,
    "dataloader_drop_last": False,
}
#: What only contrastive training does
NOT_OF_WORDS = ("chunk_size", "chunk_tokens", "unpadded", "momentum_queue", "early_stopping_patience")


class MaskingCollator(DataCollatorForLanguageModeling):
    """Masks tokens at random; the seed is a hash of the batch, so that a resumed run masks the same tokens.

    Batches are prepared ahead of the steps: after a resume the default generator would not be in the state that it had
    here in the uninterrupted run.
    """

    def torch_mask_tokens(self, inputs, *args, **kwargs):
        """The token ids `[B, L]` with masks, and those to predict, -100 elsewhere."""
        self.generator = torch.Generator().manual_seed(zlib.crc32(inputs.numpy().tobytes()))
        return super().torch_mask_tokens(inputs, *args, **kwargs)


class MLMTrainer(CheckpointTrainer):
    """Predict the masked tokens, and only them."""

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        """The mean cross-entropy of the masked tokens, a scalar."""
        core, labels = self.accelerator.unwrap_model(model), inputs.pop("labels")
        masked = labels != -100
        hidden = core.bert(**inputs).last_hidden_state[masked]
        scores = core.cls(hidden).float()
        return torch.nn.functional.cross_entropy(scores, labels[masked], reduction="sum") / max(len(scores), 1)


def open_model(args: MLMArguments, texts: Dataset, column: str) -> tuple[BertForMaskedLM, PreTrainedTokenizerBase]:
    """The model, in float32, and its tokenizer: those of a checkpoint, or new ones.

    Raises:
        InputError: the checkpoint is an adapter, or is not a BERT, of which a BERT would have weights drawn at random.
    """
    if args.model_name_or_path:
        checkpoint = Checkpoint.find(args.model_name_or_path)
        if checkpoint.adapter is not None:
            raise InputError(
                f"{checkpoint.name} is an adapter; merge it into its base first (contrastive-st merge "
                f"{checkpoint.name} -o FOLDER)"
            )
        if (kind := load_config(checkpoint).model_type) != "bert":
            raise InputError(f"{checkpoint.name} is a model of the family {kind}; give a BERT")
        layers = {"num_hidden_layers": args.num_layers} if args.num_layers else {}
        with about(checkpoint.name):
            model = BertForMaskedLM.from_pretrained(
                checkpoint.model, dtype=torch.float32,  # in half precision most steps would be rounded away
                use_safetensors=True, trust_remote_code=False, **layers,
            )  # fmt: skip
        tokenizer = load_tokenizer(checkpoint)
        tokenizer.model_max_length = args.block_size
        return model, tokenizer
    sample = texts.select(range(0, len(texts), 4)).iter(10_000)
    words = (text for batch in sample for text in batch[column])
    tokenizer = train_wordpiece(words, args.vocab_size or 16_000, args.block_size)
    config = scripts.small_bert(len(tokenizer), args.hidden_size or 256, args.num_layers or 3, args.block_size)
    config.attention_probs_dropout_prob = 0.1
    return BertForMaskedLM(config), tokenizer


def type_to_save(args: MLMArguments, training: ContrastiveTrainingArguments) -> torch.dtype | None:
    """The type that is asked for, or else that of the weights to continue from; None leaves it at that of training."""
    if training.save_dtype is not None:
        return getattr(torch, training.save_dtype)
    return stored_dtype(local_folder(args.model_name_or_path, patterns=WEIGHTS)) if args.model_name_or_path else None


def main(argv: list[str] | None = None) -> None:
    args, training = scripts.start((MLMArguments, ContrastiveTrainingArguments), DEFAULTS, argv)
    for name in NOT_OF_WORDS:
        if getattr(training, name):
            raise InputError(
                f"--{name} has no use here: the masked tokens of whole batches are predicted; leave it out"
            )
    if args.train_file:
        texts = read_texts(args.train_file)
    else:
        texts = texts_of(split_pairs(installed_docs(), 1000)[0]).select_columns(["text"])
    texts = texts.take(min(args.max_train_samples or len(texts), len(texts)))
    column = texts.column_names[0]
    model, tokenizer = open_model(args, texts, column)
    saved_type = type_to_save(args, training)

    def pack(batch: dict) -> dict:
        tokens = tokenizer(batch[column], add_special_tokens=False, verbose=False)["input_ids"]
        ids = list(itertools.chain.from_iterable(tokens))
        size = args.block_size - 2
        starts = range(0, len(ids) - size + 1, size)
        return {"input_ids": [[tokenizer.cls_token_id, *ids[i : i + size], tokenizer.sep_token_id] for i in starts]}

    blocks = texts.map(pack, batched=True, num_proc=2, remove_columns=texts.column_names, desc="pack")
    if not len(blocks):
        raise InputError(f"the texts do not fill a block of {args.block_size} tokens; give more, or --block_size")
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    learning = Learning()
    trainer = MLMTrainer(
        model, training, train_dataset=blocks, data_collator=MaskingCollator(tokenizer),
        processing_class=tokenizer, callbacks=[learning],
    )  # fmt: skip
    trainer.train(resume_from_checkpoint=training.resume_from_checkpoint)
    if trainer.sigterm.stopped:
        return
    if not trainer.finished_before:
        learning.check(trainer.state)
    with weights_as(trainer.core, saved_type):
        trainer.save_model()
    if trainer.is_world_process_zero():
        scripts.report(trainer, {}, {})


if __name__ == "__main__":
    sys.exit(run(main))
