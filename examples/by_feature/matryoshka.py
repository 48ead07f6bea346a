"""Matryoshka embeddings (Kusupati et al. 2022, https://arxiv.org/abs/2205.13147): one embedding at several dimensions.

The loss is computed for the full embedding and for its first dimensions, which can then be used alone for search:

    python examples/by_feature/matryoshka.py
    python examples/by_feature/matryoshka.py --dims 128 64 32 16 8 --weights 1 1 1 1 2

`--plain true` trains without it, for comparison. From the command line:
`contrastive-st train --train_file pairs.csv --hidden_size 256 --matryoshka_dims 256 128 64`.
"""

import sys
from dataclasses import dataclass, field

import numpy as np
from transformers import BertConfig, set_seed

from contrastive_st import (
    BertForCL,
    ContrastiveTrainer,
    ContrastiveTrainingArguments,
    InfoNCE,
    MatryoshkaLoss,
    PairCollator,
    SentenceEncoder,
    TrainingParser,
    run,
    tokenize,
    train_wordpiece,
)
from contrastive_st.data.docs_sets import texts_of
from contrastive_st.evaluation.docs_search import DocsSearch
from contrastive_st.options import option


@dataclass
class Arguments:
    """Settings of the run."""

    dims: list[int] = field(default_factory=lambda: [128, 64, 32, 16], metadata={"help": "Dimensions to train."})
    weights: list[float] | None = option("Weights of the dimensions; by default 1 each.")
    plain: bool = option("Train only the full embedding.", default=False)


DEFAULTS = {
    "output_dir": "out/matryoshka",
    "per_device_train_batch_size": 256,
    "learning_rate": 3e-3,
    "max_steps": 100,
    "logging_steps": 20,
    "save_strategy": "no",
    "report_to": "none",
}


def mrr(encoder: SentenceEncoder, docs: DocsSearch, dim: int) -> float:
    """MRR@10 of held-out paragraphs, found by their first lines with the first `dim` dimensions."""
    titles, texts = (
        encoder.encode([pair[i] for pair in docs.heldout], truncate_dim=dim, normalize_embeddings=True) for i in (0, 1)
    )
    scores = titles @ texts.T
    ranks = 1 + (scores > scores.diagonal()[:, None]).sum(1)
    return float(np.where(ranks <= 10, 1 / ranks, 0).mean())


def main() -> None:
    args, training = TrainingParser((Arguments, ContrastiveTrainingArguments)).parse(defaults=DEFAULTS)
    set_seed(training.seed)
    docs = DocsSearch.load()
    pairs = texts_of(docs.training)  # first line and paragraph of docstrings
    words = (text for name in pairs.column_names for text in pairs[name])
    tokenizer = train_wordpiece(words, vocab_size=8000, max_length=64)
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=128, num_hidden_layers=1, num_attention_heads=2, intermediate_size=512,
        max_position_embeddings=128,
    )  # fmt: skip
    loss = InfoNCE(temperature=0.05) if args.plain else MatryoshkaLoss(InfoNCE(0.05), args.dims, args.weights)
    trainer = ContrastiveTrainer(
        model=BertForCL(config, pooling="mean", loss=loss), args=training, processing_class=tokenizer,
        train_dataset=tokenize(pairs, tokenizer, 64), data_collator=PairCollator(tokenizer),
    )  # fmt: skip
    trainer.train()
    trainer.save_model()
    if trainer.is_world_process_zero():
        encoder = SentenceEncoder(training.output_dir)
        for dim in args.dims:
            print(f"{dim:5} dimensions: MRR@10 {mrr(encoder, docs, dim):.3f}")


if __name__ == "__main__":
    sys.exit(run(main))
