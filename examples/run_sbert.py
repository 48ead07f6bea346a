"""Sentence-BERT (Reimers and Gurevych 2019, https://arxiv.org/abs/1908.10084): pairs with labels or scores, triplets.

On summaries and paragraphs of the Python documentation of this machine, in minutes, offline. The loss depends on the
data: softmax for labels; cosine_similarity, cosent or angle for scores; triplet for triplets:

    accelerate launch examples/run_sbert.py
    accelerate launch examples/run_sbert.py --loss cosine_similarity --output_dir out/sbert_scores

On your own data, whose columns decide the loss, with the settings of the paper (batch 16, learning rate 2e-5):

    accelerate launch examples/run_sbert.py --train_file stsb.csv --model_name_or_path bert-base-uncased \\
        --per_device_train_batch_size 16 --learning_rate 2e-5 --max_steps -1 --num_train_epochs 1 --output_dir out/stsb

`contrastive-st train sbert_docs` trains and compares the paper's three losses with all three poolings.
"""

import sys
from dataclasses import dataclass, field

from contrastive_st.jobs import labelled_docs, triplets_of
from transformers import AutoTokenizer, BertConfig, set_seed

from contrastive_st import (
    AutoModelForCL,
    BertForCL,
    ContrastiveTrainer,
    ContrastiveTrainingArguments,
    LabelledPairCollator,
    PairCollator,
    TrainingParser,
    read_examples,
    run,
    tokenize,
    train_wordpiece,
)
from contrastive_st.data import installed_docs, pairs_of_labels, split_pairs
from contrastive_st.evaluation import retrieval_evaluator, sts_evaluator
from contrastive_st.training import check_output_dir


@dataclass
class Arguments:
    """Data and model of the run."""

    train_file: str | None = field(default=None, metadata={"help": "Pairs or triplets; by default documentation."})
    loss: str = field(
        default="softmax", metadata={"help": "Without a file: softmax, triplet, cosine_similarity, cosent or angle."}
    )
    pooling: str = field(default="mean", metadata={"help": "mean, max or cls_before_pooler (the CLS of the paper)."})
    model_name_or_path: str | None = field(default=None, metadata={"help": "Encoder; by default a small new BERT."})
    max_length: int = field(default=48, metadata={"help": "Longest text, in tokens."})
    hidden_size: int = field(default=128, metadata={"help": "Width of a new BERT, which has one layer."})
    vocab_size: int = field(default=8000, metadata={"help": "Size of the vocabulary of a new BERT."})
    overwrite_output_dir: bool = field(default=False, metadata={"help": "Overwrite another run."})


DEFAULTS = {
    "output_dir": "out/sbert",
    "per_device_train_batch_size": 64,
    "learning_rate": 1e-3,
    "max_steps": 180,
    "warmup_steps": 0.1,
    "logging_steps": 50,
    "save_strategy": "no",
    "report_to": "none",
}


def main() -> None:
    args, training = TrainingParser((Arguments, ContrastiveTrainingArguments)).parse(defaults=DEFAULTS)
    resume = check_output_dir(training, args.overwrite_output_dir)
    set_seed(training.seed)

    # data: two columns of text and `label` or `score`, or three columns of text
    loss, heldout = args.loss, []
    if args.train_file:
        texts, roles = read_examples(args.train_file)
        print(roles)
        texts = pairs_of_labels(texts, training.seed) if roles.kind == "labelled_texts" else texts
        loss = "triplet" if roles.kind == "triplets" else roles.loss
    else:
        pairs, heldout = split_pairs(installed_docs(), 1000)
        labelled = labelled_docs(pairs)
        without = {"softmax": "score", **dict.fromkeys(("cosine_similarity", "cosent", "angle"), "label")}
        texts = labelled.remove_columns(without[loss]) if loss in without else triplets_of(labelled)

    # tokenizer and model; the loss belongs to the model, and for labels it has a classifier
    columns = [name for name, feature in texts.features.items() if feature.dtype == "string"]
    settings = {"pooling": args.pooling, "loss": loss}
    if loss == "softmax":
        settings["num_labels"] = max(texts["label"][:]) + 1
    if args.model_name_or_path:
        tokenizer = AutoTokenizer.from_pretrained(args.model_name_or_path, model_max_length=args.max_length)
        model = AutoModelForCL.from_pretrained(args.model_name_or_path, with_head=True, **settings)
    else:
        tokenizer = train_wordpiece((t for name in columns for t in texts[name]), args.vocab_size, args.max_length)
        config = BertConfig(
            vocab_size=len(tokenizer), hidden_size=args.hidden_size, num_hidden_layers=1,
            num_attention_heads=max(args.hidden_size // 64, 1), intermediate_size=4 * args.hidden_size,
            max_position_embeddings=max(args.max_length, 128), attention_probs_dropout_prob=0.0,
        )  # fmt: skip
        model = BertForCL(config, **settings)
    with training.main_process_first():
        rows = tokenize(texts, tokenizer, args.max_length)

    # training; the evaluation is retrieval of held-out paragraphs by their summaries, or STS-B dev if it is available
    evaluator = (
        retrieval_evaluator(tokenizer, [pair.title for pair in heldout], [pair.text for pair in heldout])
        if heldout else sts_evaluator(tokenizer)
    )  # fmt: skip
    trainer = ContrastiveTrainer(
        model=model, args=training, train_dataset=rows, processing_class=tokenizer, evaluator=evaluator,
        data_collator=(PairCollator if loss == "triplet" else LabelledPairCollator)(tokenizer),
    )  # fmt: skip
    before = trainer.evaluate() if evaluator else {}
    trainer.train(resume_from_checkpoint=resume)
    after = trainer.evaluate() if evaluator else {}
    trainer.accelerator.unwrap_model(trainer.model).drop_heads()  # only the encoder is kept
    trainer.save_model()
    if trainer.is_world_process_zero():
        for name, value in after.items():
            print(f"{name.removeprefix('eval_'):20} {before[name]:.3f} before, {value:.3f} after")
        print(f"checkpoint in {training.output_dir}/")


if __name__ == "__main__":
    sys.exit(run(main))
