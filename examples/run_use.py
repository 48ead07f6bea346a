"""Universal Sentence Encoder (Cer et al. 2018, https://arxiv.org/abs/1803.11175): three tasks, one encoder.

The tasks are neighbours in a corpus, answers to inputs, and labelled pairs; each batch comes from one task. On the
Python documentation of this machine, in minutes, offline, with an averaging network or a transformer:

    accelerate launch examples/run_use.py
    accelerate launch examples/run_use.py --encoder transformer --output_dir out/use_transformer

On your own data:

    accelerate launch examples/run_use.py --corpus_file wiki.txt --answer_file qa.csv --nli_file SNLI \\
        --output_dir out/use_own
"""

import itertools
import os
import sys
from dataclasses import dataclass, field

from contrastive_st.jobs import labelled_docs, write_docs_corpus
from datasets import Dataset
from transformers import set_seed

from contrastive_st import (
    ContextWindowCollator,
    ContrastiveTrainer,
    ContrastiveTrainingArguments,
    LabelledPairCollator,
    Mixture,
    MixtureCollator,
    PairCollator,
    SentenceCorpus,
    TrainingParser,
    UniversalConfig,
    UniversalSentenceEncoder,
    read_texts,
    run,
    tokenize,
    train_word_tokenizer,
)
from contrastive_st.data import corpus_texts, installed_docs, read_pairs, split_pairs, tokenize_pairs
from contrastive_st.evaluation import retrieval_evaluator
from contrastive_st.training import check_output_dir

#: Each task, with the loss of its batches
TASKS = {
    "neighbours": {"loss": "targets", "targets": "next"},
    "answers": {"loss": "info_nce"},
    "nli": {"loss": "softmax", "features": ("u", "v", "abs(u-v)", "u*v")},
}


@dataclass
class Arguments:
    """Data and model of the run."""

    corpus_file: str | None = field(default=None, metadata={"help": "Neighbours: sentences in order."})
    answer_file: str | None = field(default=None, metadata={"help": "Answers: two columns, input and response."})
    nli_file: str | None = field(default=None, metadata={"help": "NLI: a file of pairs with labels, or SNLI."})
    encoder: str = field(default="dan", metadata={"help": "dan (averaging network) or transformer."})
    hidden_size: int = field(default=256, metadata={"help": "Dimension of the embedding; 512 in the paper."})
    embedding_size: int = field(default=256, metadata={"help": "Dimension of the word vectors of a dan."})
    num_layers: int = field(default=2, metadata={"help": "Feed-forward layers, or layers of the transformer."})
    vocab_size: int = field(default=20_000, metadata={"help": "Largest size of the vocabulary."})
    max_length: int = field(default=50, metadata={"help": "Longest text, in words."})
    overwrite_output_dir: bool = field(default=False, metadata={"help": "Overwrite another run."})


DEFAULTS = {
    "output_dir": "out/use",
    "per_device_train_batch_size": 256,
    "learning_rate": 1e-3,
    "max_steps": 600,
    "warmup_steps": 0.1,
    "save_strategy": "no",
    "logging_steps": 50,
    "bf16": False,
}


def main() -> None:
    args, training = TrainingParser((Arguments, ContrastiveTrainingArguments)).parse(defaults=DEFAULTS)
    resume = check_output_dir(training, args.overwrite_output_dir)
    set_seed(training.seed)

    # data of the three tasks; the documentation is used for a task without a file
    pairs, heldout = split_pairs(installed_docs(), 1000)
    corpus = args.corpus_file or os.path.join(training.output_dir, "corpus.txt")
    with training.main_process_first():
        if args.corpus_file is None:
            write_docs_corpus(corpus)
        answers = read_texts(args.answer_file) if args.answer_file else Dataset.from_dict(
            {"input": [pair.title for pair in pairs], "response": [pair.text for pair in pairs]}
        )  # fmt: skip
        labelled = read_pairs(args.nli_file) if args.nli_file else labelled_docs(pairs).remove_columns("score")

        # tokenizer: the most frequent words of all three
        texts = (text for rows in (answers, labelled) for name in rows.column_names[:2] for text in rows[name])
        texts = itertools.chain(texts, itertools.islice(corpus_texts(corpus), 200_000))
        tokenizer = train_word_tokenizer(texts, args.vocab_size, args.max_length)
        mixture = Mixture(
            {
                "neighbours": SentenceCorpus(corpus, tokenizer, args.max_length),
                "answers": tokenize(answers, tokenizer, args.max_length),
                "nli": tokenize_pairs(labelled, tokenizer, args.max_length),
            },
            dict.fromkeys(TASKS, 1.0),
        )

    # model: one encoder, a loss for each task
    config = UniversalConfig(
        len(tokenizer), args.encoder, args.embedding_size, args.hidden_size, args.num_layers, num_attention_heads=4,
        intermediate_size=4 * args.hidden_size,
    )  # fmt: skip
    model = UniversalSentenceEncoder(config, loss="multi_task", tasks=TASKS)
    collators = {
        "neighbours": ContextWindowCollator(tokenizer),
        "answers": PairCollator(tokenizer),
        "nli": LabelledPairCollator(tokenizer),
    }

    trainer = ContrastiveTrainer(
        model=model, args=training, train_dataset=mixture, processing_class=tokenizer,
        data_collator=MixtureCollator(collators),
        evaluator=retrieval_evaluator(tokenizer, [pair.title for pair in heldout], [pair.text for pair in heldout]),
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
