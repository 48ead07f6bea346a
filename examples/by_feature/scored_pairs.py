"""Pairs with scores, ranked: CoSENT (https://doi.org/10.1109/TASLP.2024.3402087) and AnglE
(https://arxiv.org/abs/2309.12871).

`cosine_similarity` fits each cosine to its score; these two losses only rank the cosines in the order of the scores:

    python examples/by_feature/scored_pairs.py
    python examples/by_feature/scored_pairs.py --loss angle
    python examples/by_feature/scored_pairs.py --loss cosine_similarity

All pairs of the batch, of every process and every chunk (`--chunk_size 32`), are compared with each other.
On a file of scored pairs: `contrastive-st train sbert --train_file stsb.csv --loss cosent`.
"""

import sys
from dataclasses import dataclass

from scipy.stats import spearmanr
from transformers import BertConfig, set_seed

from contrastive_st import (
    BertForCL,
    ContrastiveTrainer,
    ContrastiveTrainingArguments,
    LabelledPairCollator,
    SentenceEncoder,
    TrainingParser,
    run,
    tokenize,
    train_wordpiece,
)
from contrastive_st.data import installed_docs, split_pairs
from contrastive_st.data.docs_sets import labelled_docs
from contrastive_st.options import option


@dataclass
class Arguments:
    """Settings of the run."""

    loss: str = option("cosent, angle or cosine_similarity.", default="cosent")


DEFAULTS = {
    "output_dir": "out/scored_pairs",
    "per_device_train_batch_size": 64,
    "learning_rate": 1e-3,
    "max_steps": 150,
    "logging_steps": 50,
    "save_strategy": "no",
    "report_to": "none",
}


def main() -> None:
    args, training = TrainingParser((Arguments, ContrastiveTrainingArguments)).parse(defaults=DEFAULTS)
    set_seed(training.seed)
    # a summary with its own paragraph (score 1), one of its module (0.5), one of another package (0)
    rows, heldout = (labelled_docs(pairs).remove_columns("label") for pairs in split_pairs(installed_docs(), 1000))
    texts = (text for name in ("first", "second") for text in rows[name])
    tokenizer = train_wordpiece(texts, vocab_size=8000, max_length=48)
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=128, num_hidden_layers=1, num_attention_heads=2, intermediate_size=512,
        max_position_embeddings=128,
    )  # fmt: skip
    trainer = ContrastiveTrainer(
        model=BertForCL(config, pooling="mean", loss=args.loss), args=training, processing_class=tokenizer,
        train_dataset=tokenize(rows, tokenizer, 48), data_collator=LabelledPairCollator(tokenizer),
    )  # fmt: skip
    trainer.train()
    trainer.save_model()
    if trainer.is_world_process_zero():
        encoder = SentenceEncoder(training.output_dir)
        first, second = (encoder.encode(heldout[name][:], normalize_embeddings=True) for name in ("first", "second"))
        found = spearmanr((first * second).sum(1), heldout["score"][:]).statistic
        print(f"{args.loss}: Spearman of cosines and scores of {len(first)} held-out pairs {found:.3f}")


if __name__ == "__main__":
    sys.exit(run(main))
