"""Hard negatives (ANCE, Xiong et al. 2021, https://arxiv.org/abs/2007.00808): mined by one encoder, trained by another.

For each anchor, an exact search over all positives finds the nearest texts that are not its positives. A text that
scores nearly as high as the positive is probably a positive too; `--relative_margin 0.05` excludes texts that score
above 95% of the positive's score (NV-Retriever, Moreira et al. 2024, https://arxiv.org/abs/2407.15831):

    python examples/by_feature/mine_hard_negatives.py
    python examples/by_feature/mine_hard_negatives.py --miner sentence-transformers/all-MiniLM-L6-v2 --num_negatives 3

`contrastive-st mine pairs.csv -o mined.parquet` does the same for a file, and `contrastive-st train --train_file
mined.parquet` trains on it.
"""

import sys
from dataclasses import dataclass

from transformers import BertConfig, set_seed

from contrastive_st import (
    BertForCL,
    ContrastiveTrainer,
    ContrastiveTrainingArguments,
    NLITripletCollator,
    TrainingParser,
    mine_hard_negatives,
    run,
    tokenize,
    train_wordpiece,
)
from contrastive_st.data.docs_sets import texts_of
from contrastive_st.evaluation.docs_search import DocsSearch
from contrastive_st.options import option
from contrastive_st.terminal import say

DEFAULTS = {
    "output_dir": "out/mined",
    "per_device_train_batch_size": 256,
    "learning_rate": 3e-3,
    "max_steps": 100,
    "warmup_steps": 10,
    "logging_steps": 20,
    "save_strategy": "no",
    "report_to": "none",
}


@dataclass
class MiningArguments:
    """How negatives are mined."""

    miner: str | None = option("Encoder that mines; by default the static model of this package.")
    num_negatives: int = option("Negatives per anchor.", default=1)
    range_min: int = option("Skip this many of the nearest texts.", default=0)
    range_max: int = option("Look at this many of the nearest texts.", default=100)
    relative_margin: float = option("A negative scores at least this share less than the positive.", default=0.05)


def main() -> None:
    mining, training = TrainingParser((MiningArguments, ContrastiveTrainingArguments)).parse(defaults=DEFAULTS)
    set_seed(training.seed)
    search = DocsSearch.load()  # first line and paragraph of docstrings; a thousand are held out
    triplets = mine_hard_negatives(
        texts_of(search.training), mining.miner, num_negatives=mining.num_negatives, range_min=mining.range_min,
        range_max=mining.range_max, relative_margin=mining.relative_margin, verbose=not training.disable_tqdm,
    )  # fmt: skip
    print(f"{len(triplets):,} of {len(search.training):,} pairs have {mining.num_negatives} negatives; the first:")
    for name, text in triplets[0].items():
        say(f"  {name:11} {' '.join(text.split())[:100]}")

    words = (text for name in ("anchor", "positive") for text in triplets[name])
    tokenizer = train_wordpiece(words, vocab_size=8000, max_length=64)
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=128, num_hidden_layers=1, num_attention_heads=2, intermediate_size=512,
        max_position_embeddings=128,
    )  # fmt: skip
    trainer = ContrastiveTrainer(
        model=BertForCL(config, pooling="mean", loss="info_nce"), args=training,
        train_dataset=tokenize(triplets, tokenizer, 64), data_collator=NLITripletCollator(tokenizer),
        processing_class=tokenizer, evaluator=search.evaluator(tokenizer),
    )  # fmt: skip
    before = trainer.evaluate()["eval_mrr@10"]
    trainer.train()
    trainer.save_model()
    print(f"MRR@10 of held-out paragraphs: {before:.3f} before, {trainer.evaluate()['eval_mrr@10']:.3f} after")


if __name__ == "__main__":
    sys.exit(run(main))
