"""LoRA (Hu et al. 2021, https://arxiv.org/abs/2106.09685): train a small adapter of a frozen encoder.

    python examples/by_feature/lora.py
    python examples/by_feature/lora.py --lora_r 4 --lora_target_modules query value
    contrastive-st merge out/lora -o out/merged

First a small encoder is trained on paragraphs of documentation; then the adapter learns to find a paragraph by its
first line. Only the adapter is saved; its folder opens like any other. From the command line: `contrastive-st train
--train_file pairs.csv --model_name_or_path MODEL --lora_r 16`.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from transformers import BertConfig, set_seed

from contrastive_st import (
    AutoModelForCL,
    BertForCL,
    ContrastiveTrainer,
    ContrastiveTrainingArguments,
    DropoutPairCollator,
    PairCollator,
    SentenceEncoder,
    TrainingParser,
    run,
    tokenize,
    train_wordpiece,
)
from contrastive_st.data.docs_sets import texts_of
from contrastive_st.evaluation.docs_search import DocsSearch
from contrastive_st.models import add_lora
from contrastive_st.options import option

LENGTH = 32  # tokens of a text


@dataclass
class Arguments:
    """The adapter."""

    lora_r: int = option("Rank.", default=8)
    lora_alpha: float | None = option("Scale; by default 2 * lora_r.")
    lora_dropout: float = option("Dropout of the adapter's input.", default=0.0)
    lora_target_modules: list[str] | None = option("Layers to adapt; by default all linear layers.")


DEFAULTS = {
    "output_dir": "out/lora",
    "per_device_train_batch_size": 64,
    "learning_rate": 3e-3,
    "max_steps": 60,
    "logging_steps": 20,
    "save_strategy": "no",
    "report_to": "none",
}


def mrr(encoder: SentenceEncoder, docs: DocsSearch) -> float:
    """MRR@10 of held-out paragraphs, found by their first lines."""
    titles, texts = (encoder.encode([pair[i] for pair in docs.heldout], normalize_embeddings=True) for i in (0, 1))
    scores = titles @ texts.T
    ranks = 1 + (scores > scores.diagonal()[:, None]).sum(1)
    return float(np.where(ranks <= 10, 1 / ranks, 0).mean())


def megabytes(folder: str) -> float:
    """Size of the weights in a folder, in megabytes."""
    return sum(path.stat().st_size for path in Path(folder).glob("*.safetensors")) / 1e6


def main() -> None:
    args, training = TrainingParser((Arguments, ContrastiveTrainingArguments)).parse(defaults=DEFAULTS)
    set_seed(training.seed)
    docs = DocsSearch.load()
    pairs = texts_of(docs.training)  # first line and paragraph of docstrings
    words = (text for name in pairs.column_names for text in pairs[name])
    tokenizer = train_wordpiece(words, vocab_size=8000, max_length=LENGTH)
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=128, num_hidden_layers=2, num_attention_heads=2, intermediate_size=512,
        max_position_embeddings=128,
    )  # fmt: skip

    def train(model, columns, collator):
        rows = tokenize(pairs.select_columns(columns), tokenizer, LENGTH)
        trainer = ContrastiveTrainer(
            model=model, args=training, train_dataset=rows, data_collator=collator, processing_class=tokenizer
        )
        trainer.train()
        return trainer

    base = f"{training.output_dir}/base"  # where the adapter finds it: a folder here, or a name on the Hub
    train(BertForCL(config, pooling="mean"), pairs.column_names[1:], DropoutPairCollator(tokenizer)).save_model(base)
    model = add_lora(
        AutoModelForCL.from_pretrained(base), args.lora_r, args.lora_alpha, args.lora_dropout, args.lora_target_modules
    )
    trainer = train(model, pairs.column_names, PairCollator(tokenizer))
    trainer.save_model()
    if trainer.is_world_process_zero():
        for name, folder in (("base", base), ("adapter", training.output_dir)):
            print(f"{name:8} {megabytes(folder):6.2f} MB, MRR@10 {mrr(SentenceEncoder(folder), docs):.3f}")


if __name__ == "__main__":
    sys.exit(run(main))
