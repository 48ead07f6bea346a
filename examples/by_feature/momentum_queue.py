"""A momentum queue (MoCo, He et al. 2020, https://arxiv.org/abs/1911.05722): more negatives without a larger batch.

Positives are encoded by a moving average of the model, and those of earlier batches stay as candidates:

    python examples/by_feature/momentum_queue.py --momentum_queue 4096 --momentum 0.99

Both flags are arguments of `ContrastiveTrainingArguments`. A checkpoint contains the queue, so a resumed run continues
with it.
"""

import sys

from transformers import BertConfig, set_seed

from contrastive_st import (
    BertForCL,
    ContrastiveTrainer,
    ContrastiveTrainingArguments,
    PairCollator,
    TrainingParser,
    run,
    tokenize,
    train_wordpiece,
)
from contrastive_st.data.docs_sets import texts_of
from contrastive_st.evaluation.docs_search import DocsSearch

DEFAULTS = {
    "output_dir": "out/queue",
    "per_device_train_batch_size": 64,
    "momentum_queue": 1024,
    "momentum": 0.99,
    "learning_rate": 1e-3,
    "max_steps": 50,
    "logging_steps": 10,
    "save_strategy": "no",
    "report_to": "none",
}


def main() -> None:
    (training,) = TrainingParser(ContrastiveTrainingArguments).parse(defaults=DEFAULTS)
    set_seed(training.seed)
    docs = DocsSearch.load()
    pairs = texts_of(docs.training)
    words = (text for name in pairs.column_names for text in pairs[name])
    tokenizer = train_wordpiece(words, vocab_size=8000, max_length=64)
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=128, num_hidden_layers=1, num_attention_heads=2, intermediate_size=512,
        max_position_embeddings=128,
    )  # fmt: skip
    trainer = ContrastiveTrainer(
        model=BertForCL(config, pooling="mean", loss="info_nce", temperature=0.07), args=training,
        train_dataset=tokenize(pairs, tokenizer, 64), data_collator=PairCollator(tokenizer), processing_class=tokenizer,
        evaluator=docs.evaluator(tokenizer),
    )  # fmt: skip
    trainer.train()
    trainer.save_model()
    for row in trainer.state.log_history:
        if "candidates" in row:
            print(f"step {row['step']}: {row['candidates']:.0f} candidates, loss {row['loss']:.3f}")
    print(f"MRR@10 {trainer.evaluate()['eval_mrr@10']:.3f}")


if __name__ == "__main__":
    sys.exit(run(main))
