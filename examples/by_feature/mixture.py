"""Train on several data sets, each with its own loss; each batch comes from one of them.

Three data sets of the Python documentation: summaries and their paragraphs (InfoNCE), scored pairs (CoSENT), and single
paragraphs, read as a stream of unknown length (dropout pairs):

    python examples/by_feature/mixture.py
    python examples/by_feature/mixture.py --chunk_size 64
    python examples/by_feature/mixture.py --data pairs          # one of them alone

On files, from the command line: `contrastive-st train --mixture mix.yaml`, with

    datasets:
      - {name: pairs, train_file: qa.csv, columns: {anchor: question, positive: answer}, weight: 3}
      - {name: scores, train_file: sts.tsv, loss: cosent, weight: 1}
      - {name: texts, train_file: texts.jsonl, streaming: true, weight: 1}
"""

import sys
from dataclasses import dataclass, field

from datasets import IterableDataset
from scipy.stats import spearmanr
from transformers import BertConfig, set_seed

from contrastive_st import (
    BertForCL,
    ContrastiveTrainer,
    ContrastiveTrainingArguments,
    CoSENTLoss,
    DropoutPairCollator,
    InfoNCE,
    LabelledPairCollator,
    Mixture,
    MixtureCollator,
    MixtureLoss,
    PairCollator,
    SentenceEncoder,
    TrainingParser,
    run,
    tokenize,
    train_wordpiece,
)
from contrastive_st.data import installed_docs, split_pairs
from contrastive_st.data.docs_sets import labelled_docs
from contrastive_st.evaluation import retrieval_evaluator


@dataclass
class Arguments:
    """Data sets of the mixture."""

    data: list[str] = field(
        default_factory=lambda: ["pairs", "scores", "texts"], metadata={"help": "One or more of pairs, scores, texts."}
    )


WEIGHTS = {"pairs": 3, "scores": 1, "texts": 1}  # shares of the batches
DEFAULTS = {
    "output_dir": "out/mixture",
    "per_device_train_batch_size": 128,
    "learning_rate": 2e-3,
    "max_steps": 100,  # a mixture with a stream has no epochs
    "logging_steps": 20,
    "save_strategy": "no",
    "report_to": "none",
}


def main() -> None:
    args, training = TrainingParser((Arguments, ContrastiveTrainingArguments)).parse(defaults=DEFAULTS)
    set_seed(training.seed)
    docs, heldout = split_pairs(installed_docs(), 1000)
    docs = docs[:8000]  # by their hashes: any of them
    scored, heldout_scored = (labelled_docs(pairs).remove_columns("label") for pairs in (docs, heldout))
    tokenizer = train_wordpiece((text for pair in docs for text in (pair.title, pair.text)), 8000, max_length=32)

    def sentences():  # a generator: its length is not known
        for pair in docs:
            yield {"input_ids": tokenizer(pair.text, truncation=True, max_length=32)["input_ids"]}

    rows = {
        "pairs": tokenize(scored.filter(lambda row: row["score"] == 1).remove_columns("score"), tokenizer, 32),
        "scores": tokenize(scored, tokenizer, 32),
        "texts": IterableDataset.from_generator(sentences).shuffle(seed=training.seed, buffer_size=1000),
    }
    collators = {
        "pairs": PairCollator(tokenizer),
        "scores": LabelledPairCollator(tokenizer),
        "texts": DropoutPairCollator(tokenizer),
    }
    losses = {"pairs": InfoNCE(temperature=0.05), "scores": CoSENTLoss(), "texts": InfoNCE(temperature=0.05)}
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=128, num_hidden_layers=1, num_attention_heads=2, intermediate_size=512,
        max_position_embeddings=128,
    )  # fmt: skip
    trainer = ContrastiveTrainer(
        model=BertForCL(config, pooling="mean", loss=MixtureLoss(losses)), args=training, processing_class=tokenizer,
        train_dataset=Mixture(*({name: held[name] for name in args.data} for held in (rows, WEIGHTS))),
        data_collator=MixtureCollator(collators),
        evaluator=retrieval_evaluator(tokenizer, [pair.title for pair in heldout], [pair.text for pair in heldout]),
    )  # fmt: skip
    trainer.train()
    trainer.save_model()
    for row in trainer.state.log_history:
        if "loss" in row:
            print(f"step {row['step']:>4}: " + ", ".join(f"{k} {v:.3f}" for k, v in row.items() if "loss" in k))
    if trainer.is_world_process_zero():
        encoder = SentenceEncoder(training.output_dir)
        texts = (heldout_scored[name][:] for name in ("first", "second"))
        first, second = (encoder.encode(column, normalize_embeddings=True) for column in texts)
        found = spearmanr((first * second).sum(1), heldout_scored["score"][:]).statistic
        print(f"MRR@10 {trainer.evaluate()['eval_mrr@10']:.3f}; Spearman of held-out scored pairs {found:.3f}")


if __name__ == "__main__":
    sys.exit(run(main))
