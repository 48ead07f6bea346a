"""Universal Sentence Encoder (Cer et al. 2018, https://arxiv.org/abs/1803.11175): one encoder for three tasks.

The tasks are neighbours in a corpus, answers to inputs, and labelled pairs; each batch comes from one task. The paper
publishes the dimension, 512, which is the default, but neither batch size, learning rate, steps nor layers; those are
ours. On your own data (the documentation is used for a task without a file):

    accelerate launch examples/run_use.py --corpus_file wiki.txt --answer_file qa.csv --nli_file SNLI \
        --max_steps 100000 --output_dir out/use_own

Without files it trains on the Python documentation of this machine, offline, in minutes: an averaging network or a
transformer.

    accelerate launch examples/run_use.py --hidden_size 256
    accelerate launch examples/run_use.py --hidden_size 256 --encoder transformer --output_dir out/use_transformer

A tenth of the first texts of the labelled pairs is held out for the accuracy, and another tenth is not used.
"""

import itertools
import sys
from dataclasses import dataclass, field
from functools import partial

from datasets import Dataset

from contrastive_st import (
    ContextWindowCollator,
    ContrastiveTrainer,
    ContrastiveTrainingArguments,
    InputError,
    LabelledPairCollator,
    Mixture,
    MixtureCollator,
    PairCollator,
    SentenceCorpus,
    UniversalConfig,
    UniversalSentenceEncoder,
    read_texts,
    run,
    scripts,
    tokenize,
    train_word_tokenizer,
)
from contrastive_st.data import corpus_texts, installed_docs, read_examples, split_by_first, split_pairs
from contrastive_st.data.docs_sets import labelled_docs
from contrastive_st.errors import about
from contrastive_st.evaluation import retrieval_evaluator
from contrastive_st.models import load_tokenizer
from contrastive_st.options import Count, CountOrZero, option
from contrastive_st.scripts.arguments import ScriptArguments
from label_accuracy import label_accuracy

DEFAULTS = {
    "output_dir": "out/use",
    "per_device_train_batch_size": 256,
    "learning_rate": 1e-3,
    "max_steps": 600,
    "warmup_steps": 0.1,
    "logging_steps": 50,
    "save_strategy": "no",
    "bf16": False,
}
#: Each task, with the loss of its batches
TASKS = {
    "neighbours": {"loss": "targets", "targets": "next"},
    "answers": {"loss": "info_nce"},
    "nli": {"loss": "softmax", "features": ("u", "v", "abs(u-v)", "u*v")},
}


@dataclass
class UniversalArguments(ScriptArguments):
    """Data and model."""

    corpus_file: str | None = option(
        "Data of the first task (neighbours): sentences in order, .txt or .parquet. This file, --answer_file and "
        "--nli_file are by default made from the documentation of the installed Python packages."
    )
    answer_file: str | None = option("Data of the second task (answers): two columns, input and response.")
    nli_file: str | None = option(
        "Data of the third task (nli): a file of SNLI, MultiNLI, ... or a name such as SNLI (of the Hub)."
    )
    task_weights: list[float] = field(
        default_factory=lambda: [1.0, 1.0, 1.0],
        metadata={"help": "Shares of the tasks in the batches: neighbours, answers and nli."},
    )
    encoder: str = option("Type of the encoder: dan (deep averaging network) or transformer.", default="dan")
    hidden_size: Count = option("Dimension of the embedding.", default=512)
    embedding_size: Count = option("Dimension of the word vectors, with the encoder dan.", default=256)
    num_layers: CountOrZero = option(
        "Number of feed-forward layers of dan, or of layers of the transformer.", default=2
    )
    vocab_size: Count = option("Maximum vocabulary size, in words.", default=20_000)
    max_length: Count = option("Maximum length of a sentence, in words.", default=50)

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.task_weights) != len(TASKS):
            raise InputError(f"task_weights has {len(self.task_weights)} numbers; give one each for {', '.join(TASKS)}")


def main(argv: list[str] | None = None) -> dict[str, float]:
    own, training = scripts.start((UniversalArguments, ContrastiveTrainingArguments), DEFAULTS, argv)
    given = [file for file in (own.corpus_file, own.answer_file, own.nli_file) if file]

    # data of the three tasks
    pairs, heldout = split_pairs(installed_docs(), 1000) if len(given) < 3 else ([], [])
    (corpus,), _ = scripts.corpus_files(own.corpus_file and [own.corpus_file], training)
    with training.main_process_first(desc="read"):
        answers = read_texts(own.answer_file) if own.answer_file else Dataset.from_dict(
            {"input": [pair.title for pair in pairs], "response": [pair.text for pair in pairs]}
        )  # fmt: skip
        if own.nli_file:
            labelled, _ = read_examples(own.nli_file, kinds=["labelled_pairs"])
        else:
            labelled = labelled_docs(pairs).remove_columns("score")
        train, dev, _ = split_by_first(labelled)

    # tokenizer: the most frequent words of all three
    texts = itertools.chain(
        (text for rows in (answers, train) for name in rows.column_names[:2] for text in rows[name][:]),
        itertools.islice(corpus_texts(corpus), 200_000),
    )
    resume = training.resume_from_checkpoint
    tokenizer = load_tokenizer(resume) if resume else train_word_tokenizer(texts, own.vocab_size, own.max_length)
    with training.main_process_first(desc="tokenize"):
        rows = {
            "neighbours": SentenceCorpus(corpus, tokenizer, own.max_length),
            "answers": tokenize(answers, tokenizer, own.max_length),
            "nli": tokenize(train, tokenizer, own.max_length),
        }
        dev_rows = tokenize(dev, tokenizer, own.max_length)
    scripts.check_window(training, rows["neighbours"])

    # model: one encoder, a loss for each task
    with about("the model"):
        config = UniversalConfig(
            len(tokenizer), own.encoder, own.embedding_size, own.hidden_size, own.num_layers, num_attention_heads=4,
            intermediate_size=4 * own.hidden_size,
        )  # fmt: skip
    model = UniversalSentenceEncoder(config, loss="multi_task", tasks=TASKS)

    # training; the evaluation is the accuracy of the labels, the search of held-out documentation, and STS-B dev
    accuracy = partial(label_accuracy, tokenizer=tokenizer, rows=dev_rows, task="nli")
    metrics = {"nli_accuracy": accuracy}
    if heldout:
        search = retrieval_evaluator(tokenizer, [pair.title for pair in heldout], [pair.text for pair in heldout])
        metrics["docs_mrr"] = lambda model: search(model)["mrr@10"]
    kinds = dict(zip(TASKS, (ContextWindowCollator, PairCollator, LabelledPairCollator), strict=True))
    trainer = ContrastiveTrainer(
        model=model, args=training, train_dataset=Mixture(rows, dict(zip(TASKS, own.task_weights, strict=True))),
        data_collator=MixtureCollator({name: kind(tokenizer) for name, kind in kinds.items()}),
        processing_class=tokenizer, evaluator=scripts.metrics_evaluator(tokenizer, **metrics),
    )  # fmt: skip
    scripts.describe_data(trainer, given, own)
    return scripts.finish(trainer)


if __name__ == "__main__":
    sys.exit(run(main))
