"""GradCache (Gao et al. 2021, https://arxiv.org/abs/2101.06983): a batch of any size in the memory of a chunk.

`--chunk_size` sets how many texts are encoded at a time; loss, gradients and weights are those of the whole batch:

    python examples/by_feature/gradcache.py --per_device_train_batch_size 4096 --chunk_size 64
    python examples/by_feature/gradcache.py --per_device_train_batch_size 4096 --chunk_tokens 2048
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
    "output_dir": "out/gradcache",
    "per_device_train_batch_size": 1024,
    "chunk_size": 64,
    "learning_rate": 3e-3,
    "max_steps": 20,
    "logging_steps": 5,
    "save_strategy": "no",
    "report_to": "none",
}


def main() -> None:
    (training,) = TrainingParser(ContrastiveTrainingArguments).parse(defaults=DEFAULTS)
    set_seed(training.seed)
    pairs = texts_of(DocsSearch.load().training)  # first line and paragraph of docstrings
    words = (text for name in pairs.column_names for text in pairs[name])
    tokenizer = train_wordpiece(words, vocab_size=8000, max_length=64)
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=128, num_hidden_layers=1, num_attention_heads=2, intermediate_size=512,
        max_position_embeddings=128,
    )  # fmt: skip
    trainer = ContrastiveTrainer(
        model=BertForCL(config, pooling="mean", loss="info_nce"), args=training,
        train_dataset=tokenize(pairs, tokenizer, 64), data_collator=PairCollator(tokenizer), processing_class=tokenizer,
    )  # fmt: skip
    trainer.train()
    trainer.save_model()
    for row in trainer.state.log_history:
        if "candidates" in row:
            print(f"step {row['step']}: {row['candidates']:.0f} candidates in chunks of {training.chunk_size} texts")


if __name__ == "__main__":
    sys.exit(run(main))
