"""InferSent (Conneau et al. 2017, https://arxiv.org/abs/1705.02364): a max-pooled BiLSTM trained to predict NLI labels.

The defaults are the published settings: SGD with learning rate 0.1, which is multiplied by 0.99 after each epoch and
divided by 5 when the dev accuracy does not rise, until it is below 1e-5; at most 20 epochs, batch 64, gradients clipped
to norm 5, 2048 dimensions in each direction, hidden layers of size 512 in the classifier (0 makes it linear, the
default of the authors' code). On NLI, with GloVe vectors:

    accelerate launch examples/run_infersent.py --train_file snli_1.0_train.jsonl \
        --word_vectors glove.840B.300d.txt --vocab_size 400000 --output_dir out/infersent_nli

Without a file it trains on summaries and paragraphs of the Python documentation of this machine, offline. Without a
file of word vectors they are trained too. SGD hardly changes them in a few steps, so this run of minutes uses AdamW:

    accelerate launch examples/run_infersent.py --hidden_size 256 --embedding_size 100 --max_train_samples 12000 \
        --optim adamw_torch --learning_rate 1e-3 --num_train_epochs 2

A tenth of the first texts is held out for the dev accuracy, and another tenth for the test accuracy.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_callback import ExportableState

from contrastive_st import (
    ContrastiveTrainer,
    ContrastiveTrainingArguments,
    InferSentBiLSTM,
    InferSentConfig,
    LabelledPairCollator,
    embedding_matrix,
    read_word_vectors,
    run,
    scripts,
    train_word_tokenizer,
    vector_tokenizer,
)
from contrastive_st.data import installed_docs, lsa_word_vectors, read_examples, sample, split_by_first, tokenize
from contrastive_st.data.docs_sets import labelled_docs
from contrastive_st.options import Count, CountOrZero, option
from contrastive_st.scripts.arguments import ScriptArguments
from label_accuracy import label_accuracy

DEFAULTS = {
    "output_dir": "out/infersent",
    "per_device_train_batch_size": 64,
    "optim": "sgd",
    "learning_rate": 0.1,
    "lr_scheduler_type": "constant",
    "max_grad_norm": 5.0,
    "num_train_epochs": 20,
    "eval_strategy": "epoch",
    "logging_steps": 100,
    "save_strategy": "no",
    "bf16": False,
}


@dataclass
class InferSentArguments(ScriptArguments):
    """Data and model."""

    train_file: str | None = option(
        "Pairs with labels: a file of SNLI, MultiNLI, ... or a name such as SNLI (of the Hub). Without it: "
        "summaries and paragraphs of the documentation of installed Python packages; a pair has one of "
        "three labels: its texts are of the same object, of the same module, or of different packages."
    )
    max_train_samples: Count | None = option("Number of pairs to train on, drawn at random.")
    word_vectors: str | None = option(
        "GloVe or fastText file, whose vectors are frozen. By default word vectors are computed from the training "
        "texts (latent semantic analysis) and trained further."
    )
    vocab_size: Count = option("Maximum vocabulary size, in words.", default=20_000)
    embedding_size: Count = option("Dimension of the word vectors, if --word_vectors is not given.", default=300)
    hidden_size: Count = option("Hidden size of the LSTM in each direction.", default=2048)
    head_hidden: CountOrZero = option(
        "Size of the hidden layers of the classifier; 0: a linear classifier.", default=512
    )
    max_length: Count = option("Maximum length of a sentence, in words.", default=50)

    def conflicts(self) -> Iterator[str]:
        """Yield a dimension with vectors that have one."""
        if self.word_vectors:
            yield from self.unused("with --word_vectors", "embedding_size")


class DevDecay(TrainerCallback, ExportableState):
    """Lowers the learning rate after each epoch: times `decay`, and divided by `shrink` if the dev score did not rise.

    For a constant schedule with evaluation after each epoch (Conneau et al. 2017: SGD from 0.1). The best score is kept
    in the trainer's state, so that a resumed run continues like an uninterrupted one.

    Args:
        metric: name of the score in the evaluator's metrics.
        decay: factor of every epoch.
        shrink: divisor if the score did not rise.
        lowest: training stops when the rate falls below this.
    """

    def __init__(
        self, metric: str = "dev_accuracy", decay: float = 0.99, shrink: float = 5.0, lowest: float = 1e-5
    ) -> None:
        self.metric, self.decay, self.shrink, self.lowest = metric, decay, shrink, lowest
        self.best, self.seen = float("-inf"), 0.0

    def state(self) -> dict[str, Any]:
        """The arguments and attributes that are saved in a checkpoint."""
        names = ("metric", "decay", "shrink", "lowest")
        return {
            "args": {name: getattr(self, name) for name in names},
            "attributes": {"best": self.best, "seen": self.seen},
        }

    def on_evaluate(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        metrics: dict[str, float] | None = None,
        lr_scheduler: Any = None,
        **kwargs: Any,
    ) -> None:
        """Lower the learning rate after the evaluation of an epoch."""
        epoch = float(state.epoch or 0)
        if lr_scheduler is None or epoch <= self.seen:  # before training, or again after its end
            return
        self.seen, score = epoch, (metrics or {})[f"eval_{self.metric}"]
        factor = self.decay if score > self.best else self.decay / self.shrink
        self.best = max(self.best, score)
        lr_scheduler.base_lrs = [rate * factor for rate in lr_scheduler.base_lrs]
        for group, rate in zip(lr_scheduler.optimizer.param_groups, lr_scheduler.base_lrs, strict=True):
            group["lr"] = rate
        if max(lr_scheduler.base_lrs) < self.lowest:
            control.should_training_stop = True


def main(argv: list[str] | None = None) -> dict[str, float]:
    own, training = scripts.start((InferSentArguments, ContrastiveTrainingArguments), DEFAULTS, argv)

    # data: two texts and a `label`; no first text of dev and test is trained on
    with training.main_process_first(desc="read"):
        docs = None if own.train_file else labelled_docs(installed_docs()).remove_columns("score")
        pairs = docs or read_examples(own.train_file, kinds=["labelled_pairs"])[0]
    train, dev, test = split_by_first(pairs)
    train = sample(train, own.max_train_samples)

    # tokenizer and word vectors: those of a file, which are not trained, or latent semantic analysis of the texts
    if own.word_vectors:
        vectors = read_word_vectors(own.word_vectors, limit=own.vocab_size)
        tokenizer = vector_tokenizer(vectors, own.max_length)
        matrix = embedding_matrix(vectors, tokenizer)
    else:
        texts = [text for name in train.column_names[:2] for text in train[name][:]]
        tokenizer = train_word_tokenizer(texts, own.vocab_size, own.max_length)
        matrix = lsa_word_vectors(texts, tokenizer, own.embedding_size)
    with training.main_process_first(desc="tokenize"):
        rows, dev, test = (tokenize(part, tokenizer, own.max_length) for part in (train, dev, test))

    # model: the loss is a softmax over u, v, |u - v| and u * v of the two sentences
    config = InferSentConfig(
        len(tokenizer), matrix.shape[1], own.hidden_size, frozen_words=own.word_vectors is not None,
    )  # fmt: skip
    model = InferSentBiLSTM(config, head_hidden=own.head_hidden, num_labels=max(pairs["label"][:]) + 1)
    model.set_word_vectors(matrix)

    # training; the evaluation is the accuracy of the labels, and STS-B dev if CONTRASTIVE_ST_DATA has it
    accuracy = partial(label_accuracy, tokenizer=tokenizer)
    trainer = ContrastiveTrainer(
        model=model, args=training, train_dataset=rows, data_collator=LabelledPairCollator(tokenizer),
        processing_class=tokenizer, callbacks=[DevDecay()],
        evaluator=scripts.metrics_evaluator(
            tokenizer, dev_accuracy=partial(accuracy, rows=dev), test_accuracy=partial(accuracy, rows=test)
        ),
    )  # fmt: skip
    scripts.describe_data(trainer, own.train_file, own)
    return scripts.finish(trainer)


if __name__ == "__main__":
    sys.exit(run(main))
