"""QuickThoughts and its relatives (Logeswaran and Lee 2018, https://arxiv.org/abs/1803.02893).

The encoder learns to find the neighbours of each sentence. On the Python documentation of this machine, in minutes,
offline:

    accelerate launch examples/run_quickthoughts.py

On your own corpus of sentences in order (a sentence a line and blank lines between documents, or parquet), with your
own word vectors and the settings of the paper:

    accelerate launch examples/run_quickthoughts.py --train_file books.parquet --hidden_size 1000 \\
        --word_vectors glove.840B.300d.txt --vocab_size 400000 --output_dir out/books

With other targets: shared words, TF-IDF, or the one sentence that is most similar by TF-IDF:

    accelerate launch examples/run_quickthoughts.py --targets tfidf_bin --output_dir out/tfidf

`contrastive-st train quickthoughts --help` has more: context weights, other towers and readouts, several files.
"""

import itertools
import os
import sys
from dataclasses import dataclass, field

import numpy as np
from contrastive_st.jobs import package_task, write_docs_corpus
from transformers import set_seed

from contrastive_st import (
    ContextWindowCollator,
    ContrastiveTrainer,
    ContrastiveTrainingArguments,
    CooccurrenceCollator,
    QuickThoughtsConfig,
    QuickThoughtsGRU,
    SentenceCorpus,
    TrainingParser,
    embedding_matrix,
    read_word_vectors,
    run,
    train_word_tokenizer,
    vector_tokenizer,
)
from contrastive_st.data import corpus_texts, fit_idf
from contrastive_st.evaluation import SuiteEvaluator
from contrastive_st.training import check_output_dir


@dataclass
class Arguments:
    """Data and model of the run."""

    train_file: str | None = field(default=None, metadata={"help": "Sentences in order; by default documentation."})
    targets: str = field(default="window", metadata={"help": "next, window, counts, tfidf or tfidf_bin."})
    row_loss: str = field(default="kl", metadata={"help": "kl, cross_entropy, l2, block (CURL) or pairwise."})
    context_size: int = field(default=1, metadata={"help": "Sentences on each side in the window."})
    encoder: str = field(default="gru", metadata={"help": "gru, lstm or transformer."})
    hidden_size: int = field(default=300, metadata={"help": "Width of one tower; the embedding has twice that."})
    embedding_size: int = field(default=200, metadata={"help": "Dimension of the word vectors."})
    word_vectors: str | None = field(default=None, metadata={"help": "GloVe, word2vec or fastText file."})
    vocab_size: int = field(default=20_000, metadata={"help": "Largest size of the vocabulary."})
    max_length: int = field(default=50, metadata={"help": "Longest sentence, in words."})
    overwrite_output_dir: bool = field(default=False, metadata={"help": "Overwrite another run."})


DEFAULTS = {
    "output_dir": "out/quickthoughts",
    "per_device_train_batch_size": 400,
    "learning_rate": 2e-3,
    "max_grad_norm": 5.0,
    "num_train_epochs": 3,
    "lr_scheduler_type": "constant",
    "logging_steps": 20,
    "eval_strategy": "epoch",
    "save_strategy": "no",
}


def main() -> None:
    args, training = TrainingParser((Arguments, ContrastiveTrainingArguments)).parse(defaults=DEFAULTS)
    resume = check_output_dir(training, args.overwrite_output_dir)
    set_seed(training.seed)

    # data: sentences in order, read from disk; the evaluation is a classifier over the embeddings
    file, tasks, data = args.train_file, "MR,CR,SST2,TREC", os.environ.get("CONTRASTIVE_ST_DATA")
    if file is None:
        file, data = os.path.join(training.output_dir, "corpus.txt"), "hub"
        with training.main_process_first():
            tasks = [package_task(write_docs_corpus(file))]  # which package a held-out paragraph is from

    # tokenizer: the words of the vectors, or the most frequent of the corpus
    vectors = read_word_vectors(args.word_vectors, limit=args.vocab_size) if args.word_vectors else None
    tokenizer = (
        vector_tokenizer(vectors, args.max_length) if vectors is not None
        else train_word_tokenizer(corpus_texts(file), args.vocab_size, args.max_length)
    )  # fmt: skip
    corpus = SentenceCorpus(file, tokenizer, args.max_length)

    # model: two towers (f for a sentence, g for its neighbours) and the loss
    matrix = None if vectors is None else embedding_matrix(vectors, tokenizer)
    config = QuickThoughtsConfig(
        vocab_size=len(tokenizer), hidden_size=args.hidden_size, encoder=args.encoder,
        embedding_size=args.embedding_size if matrix is None else matrix.shape[1],
    )  # fmt: skip
    model = QuickThoughtsGRU(
        config, targets=args.targets, row_loss=args.row_loss, context_size=args.context_size,
        temperature=0.1 if args.targets == "tfidf" else 1.0,
    )  # fmt: skip
    if matrix is not None:
        model.set_word_vectors(matrix)

    # collator: positions in the corpus for windows; bags of words, weighted by IDF, for shared words
    if args.targets in ("next", "window"):
        collator = ContextWindowCollator(tokenizer)
    else:
        some = list(itertools.islice(corpus_texts(file), 200_000))
        ids = tokenizer(some, truncation=True, max_length=args.max_length)["input_ids"]
        idf = None if args.targets == "counts" else np.asarray(fit_idf(ids, len(tokenizer)))
        collator = CooccurrenceCollator(tokenizer, args.targets, idf)

    evaluator = SuiteEvaluator(tokenizer, tasks, data, folds=5) if data else None
    if evaluator is None:
        training.eval_strategy = "no"
    trainer = ContrastiveTrainer(
        model=model, args=training, train_dataset=corpus, data_collator=collator, processing_class=tokenizer,
        evaluator=evaluator,
    )  # fmt: skip
    before = trainer.evaluate() if evaluator else {}
    trainer.train(resume_from_checkpoint=resume)
    after = trainer.evaluate() if evaluator else {}
    trainer.save_model()
    if trainer.is_world_process_zero():
        for name, value in after.items():
            print(f"{name.removeprefix('eval_'):20} {before[name]:.3f} before, {value:.3f} after")
        print(f"checkpoint in {training.output_dir}/")


if __name__ == "__main__":
    sys.exit(run(main))
