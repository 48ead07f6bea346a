"""InferSent (Conneau et al. 2017, https://arxiv.org/abs/1705.02364): a max-pooled BiLSTM trained to predict NLI labels.

On summaries and paragraphs of the Python documentation of this machine, in minutes, offline:

    accelerate launch examples/run_infersent.py

On NLI, with the settings of the paper (SGD, learning rate 0.1) and GloVe vectors:

    accelerate launch examples/run_infersent.py --train_file snli_1.0_train.jsonl --hidden_size 2048 \\
        --word_vectors glove.840B.300d.txt --vocab_size 400000 --optim sgd --learning_rate 0.1 --num_train_epochs 20 \\
        --output_dir out/infersent_nli

A tenth of the premises is held out for the dev accuracy, and another tenth for the test accuracy.
"""

import sys
from dataclasses import dataclass, field
from functools import partial

from contrastive_st.jobs import label_accuracy, labelled_docs, split_by_first
from transformers import set_seed

from contrastive_st import (
    ContrastiveTrainer,
    ContrastiveTrainingArguments,
    InferSentBiLSTM,
    InferSentConfig,
    LabelledPairCollator,
    TrainingParser,
    embedding_matrix,
    read_word_vectors,
    run,
    train_word_tokenizer,
    vector_tokenizer,
)
from contrastive_st.data import installed_docs, lsa_word_vectors, read_pairs, tokenize_pairs
from contrastive_st.training import check_output_dir


@dataclass
class Arguments:
    """Data and model of the run."""

    train_file: str | None = field(default=None, metadata={"help": "SNLI, MultiNLI, ...; by default documentation."})
    word_vectors: str | None = field(
        default=None, metadata={"help": "GloVe or fastText file; by default they are trained."}
    )
    vocab_size: int = field(default=20_000, metadata={"help": "Largest size of the vocabulary."})
    embedding_size: int = field(default=100, metadata={"help": "Dimension of the word vectors without a file of them."})
    hidden_size: int = field(default=256, metadata={"help": "Width of one direction; 2048 in the paper."})
    head_hidden: int = field(default=512, metadata={"help": "Width of the classifier's hidden layers; 0: linear."})
    max_length: int = field(default=50, metadata={"help": "Longest text, in words."})
    max_train_samples: int = field(default=12_000, metadata={"help": "Pairs to train on; 0 for all."})
    overwrite_output_dir: bool = field(default=False, metadata={"help": "Overwrite another run."})


DEFAULTS = {
    "output_dir": "out/infersent",
    "per_device_train_batch_size": 64,
    "optim": "adamw_torch",
    "learning_rate": 1e-3,
    "lr_scheduler_type": "constant",
    "max_grad_norm": 5.0,
    "num_train_epochs": 2,
    "eval_strategy": "epoch",
    "save_strategy": "no",
    "logging_steps": 100,
    "bf16": False,
}


def main() -> None:
    args, training = TrainingParser((Arguments, ContrastiveTrainingArguments)).parse(defaults=DEFAULTS)
    resume = check_output_dir(training, args.overwrite_output_dir)
    set_seed(training.seed)

    # data: `first`, `second` and `label`; no premise of dev and test is trained on
    docs = None if args.train_file else labelled_docs(installed_docs()).remove_columns("score")
    pairs = docs or read_pairs(args.train_file)
    train, dev, test = split_by_first(pairs)
    train = train.shuffle(seed=0).select(range(min(args.max_train_samples or len(train), len(train))))

    # tokenizer and word vectors: those of a file, which are not trained, or latent semantic analysis of the texts
    if args.word_vectors:
        vectors = read_word_vectors(args.word_vectors, limit=args.vocab_size)
        tokenizer = vector_tokenizer(vectors, args.max_length)
        matrix = embedding_matrix(vectors, tokenizer)
    else:
        texts = [text for name in ("first", "second") for text in train[name]]
        tokenizer = train_word_tokenizer(texts, args.vocab_size, args.max_length)
        matrix = lsa_word_vectors(texts, tokenizer, args.embedding_size)
    with training.main_process_first():
        rows, dev, test = (tokenize_pairs(part, tokenizer, args.max_length) for part in (train, dev, test))

    # model: the loss is a softmax over u, v, |u - v| and u * v of the two sentences
    config = InferSentConfig(
        len(tokenizer), matrix.shape[1], args.hidden_size, frozen_words=args.word_vectors is not None,
    )  # fmt: skip
    model = InferSentBiLSTM(config, head_hidden=args.head_hidden, num_labels=max(pairs["label"][:]) + 1)
    model.set_word_vectors(matrix)

    told = {
        name: partial(label_accuracy, tokenizer=tokenizer, rows=part) for name, part in (("dev", dev), ("test", test))
    }
    trainer = ContrastiveTrainer(
        model=model, args=training, train_dataset=rows, data_collator=LabelledPairCollator(tokenizer),
        processing_class=tokenizer,
        evaluator=lambda model: {f"{name}_accuracy": tell(model) for name, tell in told.items()},
    )  # fmt: skip
    before = trainer.evaluate()
    trainer.train(resume_from_checkpoint=resume)
    after = trainer.evaluate()
    trainer.accelerator.unwrap_model(trainer.model).drop_heads()
    trainer.save_model()
    if trainer.is_world_process_zero():
        for name, value in after.items():
            print(f"{name.removeprefix('eval_'):20} {before[name]:.3f} before, {value:.3f} after")
        print(f"checkpoint in {training.output_dir}/")


if __name__ == "__main__":
    sys.exit(run(main))
