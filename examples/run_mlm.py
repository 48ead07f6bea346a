"""Pre-train a small BERT on your own text by masked language modelling; `run_simcse.py` can start from it.

    accelerate launch examples/run_mlm.py --train_file wikipedia.parquet --output_dir out/mlm
    contrastive-st train simcse --train_file wikipedia.parquet --model_name_or_path out/mlm --pooling mean

With `--model_name_or_path` it goes on from a BERT, with its tokenizer and all of its layers or the first ones.

Sentences are packed into blocks without padding. Dropout is off, since one pass over much text does not overfit; the
saved config keeps the usual 0.1, which unsupervised SimCSE needs. The head is computed for the masked tokens only.
"""

import itertools
import sys
from dataclasses import dataclass, field

import torch
from datasets import Dataset
from transformers import (
    AutoTokenizer,
    BertConfig,
    BertForMaskedLM,
    DataCollatorForLanguageModeling,
    PreTrainedTokenizerBase,
    Trainer,
    set_seed,
)

from contrastive_st import ContrastiveTrainingArguments, TrainingParser, read_texts, run, train_wordpiece
from contrastive_st.training import check_output_dir


@dataclass
class MLMArguments:
    """Data and model of the run."""

    train_file: str = field(metadata={"help": "Sentences in order: .txt, .csv, .json(l), .parquet or a Hub data set."})
    max_train_samples: int | None = field(default=None, metadata={"help": "Use only the first N sentences."})
    model_name_or_path: str | None = field(default=None, metadata={"help": "BERT to go on from; else from scratch."})
    vocab_size: int = field(default=16_000, metadata={"help": "Word pieces, learned from every fourth sentence."})
    block_size: int = field(default=64, metadata={"help": "Tokens per block."})
    num_layers: int | None = field(default=None, metadata={"help": "Layers; 3, or all of the checkpoint."})
    hidden_size: int = field(default=256, metadata={"help": "Dimension of the embedding."})
    overwrite_output_dir: bool = field(default=False, metadata={"help": "Overwrite another run."})


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
}


class MLMTrainer(Trainer):
    """Predict the masked tokens, and only them."""

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        core, labels = self.accelerator.unwrap_model(model), inputs.pop("labels")
        masked = labels != -100
        hidden = core.bert(**inputs).last_hidden_state[masked]
        return torch.nn.functional.cross_entropy(core.cls(hidden).float(), labels[masked])


def start(args: MLMArguments, texts: Dataset, column: str) -> tuple[BertForMaskedLM, PreTrainedTokenizerBase]:
    """The model and its tokenizer: those of a checkpoint, or new ones."""
    if args.model_name_or_path:
        layers = {"num_hidden_layers": args.num_layers} if args.num_layers else {}
        model = BertForMaskedLM.from_pretrained(args.model_name_or_path, **layers)
        return model, AutoTokenizer.from_pretrained(args.model_name_or_path, model_max_length=args.block_size)
    sample = texts.select(range(0, len(texts), 4)).iter(10_000)
    tokenizer = train_wordpiece((t for batch in sample for t in batch[column]), args.vocab_size, args.block_size)
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=args.hidden_size, num_hidden_layers=args.num_layers or 3,
        num_attention_heads=args.hidden_size // 64, intermediate_size=4 * args.hidden_size,
        max_position_embeddings=args.block_size,
    )  # fmt: skip
    return BertForMaskedLM(config), tokenizer


def main() -> None:
    args, training = TrainingParser((MLMArguments, ContrastiveTrainingArguments)).parse(defaults=DEFAULTS)
    resume = check_output_dir(training, args.overwrite_output_dir)
    set_seed(training.seed)
    texts = read_texts(args.train_file)
    texts = texts.take(min(args.max_train_samples or len(texts), len(texts)))
    column = texts.column_names[0]
    model, tokenizer = start(args, texts, column)

    def pack(batch: dict) -> dict:
        tokens = tokenizer(batch[column], add_special_tokens=False, verbose=False)["input_ids"]
        ids = list(itertools.chain.from_iterable(tokens))
        size = args.block_size - 2
        starts = range(0, len(ids) - size + 1, size)
        return {"input_ids": [[tokenizer.cls_token_id, *ids[i : i + size], tokenizer.sep_token_id] for i in starts]}

    blocks = texts.map(pack, batched=True, num_proc=2, remove_columns=texts.column_names, desc="pack")
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    trainer = MLMTrainer(
        model, training, train_dataset=blocks, data_collator=DataCollatorForLanguageModeling(tokenizer),
        processing_class=tokenizer,
    )  # fmt: skip
    trainer.train(resume_from_checkpoint=resume)
    trainer.save_model()


if __name__ == "__main__":
    sys.exit(run(main))
