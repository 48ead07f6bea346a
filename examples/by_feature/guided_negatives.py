"""Guided negatives (GISTEmbed, https://arxiv.org/abs/2402.16829; NV-Retriever, https://arxiv.org/abs/2407.15831).

Another encoder, the guide, finds the candidates that are more similar to the anchor than its positive is. They are
probably unlabelled positives, so they are masked:

    python examples/by_feature/guided_negatives.py
    python examples/by_feature/guided_negatives.py --margin 0.05 --margin_strategy relative
    python examples/by_feature/guided_negatives.py --guide sentence-transformers/all-MiniLM-L6-v2

The guide encodes each text once; by default it is the static model of this package. From the command line:
`contrastive-st train --train_file pairs.csv --guide sentence-transformers/all-MiniLM-L6-v2`.
"""

import sys
from dataclasses import dataclass

from transformers import BertConfig, set_seed

from contrastive_st import (
    BertForCL,
    ContrastiveTrainer,
    ContrastiveTrainingArguments,
    GuidedInfoNCE,
    GuidedRows,
    PairCollator,
    SentenceEncoder,
    TrainingParser,
    run,
    tokenize,
    train_wordpiece,
)
from contrastive_st.data.docs_sets import texts_of
from contrastive_st.evaluation import EmbeddingStore
from contrastive_st.evaluation.docs_search import DocsSearch
from contrastive_st.options import option


@dataclass
class Arguments:
    """The guide and its margin."""

    guide: str | None = option("Folder or Hub name; by default the package's own.")
    margin: float = option("Also mask this far below the positive's similarity.", default=0.0)
    margin_strategy: str = option("absolute or relative.", default="absolute")


DEFAULTS = {
    "output_dir": "out/guided",
    "per_device_train_batch_size": 256,
    "learning_rate": 3e-3,
    "max_steps": 100,
    "logging_steps": 20,
    "save_strategy": "no",
    "report_to": "none",
}


def main() -> None:
    args, training = TrainingParser((Arguments, ContrastiveTrainingArguments)).parse(defaults=DEFAULTS)
    set_seed(training.seed)
    docs = DocsSearch.load()
    pairs = texts_of(docs.training)
    words = [text for name in pairs.column_names for text in pairs[name]]
    tokenizer = train_wordpiece(words, vocab_size=8000, max_length=64)
    guide = EmbeddingStore(SentenceEncoder(args.guide), words)  # texts to vectors, each encoded once
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=128, num_hidden_layers=1, num_attention_heads=2, intermediate_size=512,
        max_position_embeddings=128,
    )  # fmt: skip
    loss = GuidedInfoNCE(temperature=0.05, margin=args.margin, margin_strategy=args.margin_strategy)
    trainer = ContrastiveTrainer(
        model=BertForCL(config, pooling="mean", loss=loss), args=training, processing_class=tokenizer,
        train_dataset=GuidedRows(tokenize(pairs, tokenizer, 64), pairs, guide), data_collator=PairCollator(tokenizer),
        evaluator=docs.evaluator(tokenizer),
    )  # fmt: skip
    trainer.train()
    trainer.save_model()
    for row in trainer.state.log_history:
        if "masked" in row:
            print(f"step {row['step']}: {100 * row['masked']:.2f}% of the candidates masked, loss {row['loss']:.3f}")
    print(f"MRR@10 {trainer.evaluate()['eval_mrr@10']:.3f}")


if __name__ == "__main__":
    sys.exit(run(main))
