"""QuickThoughts and its relatives (Logeswaran and Lee 2018, https://arxiv.org/abs/1803.02893).

Two towers learn to find the neighbours of each sentence among the sentences of the batch. The defaults are published
settings: batch 400, Adam at 5e-4 without decay, gradients of norm 5 at most, one epoch, sentences of 30 words, 50,000
words of 620 dimensions (300 with the paper's file of GloVe vectors), a window of one sentence on each side. A tower has
width 1000; the authors' code has 1200. On your own sentences in order (one a line, a blank line between documents):

    accelerate launch examples/run_quickthoughts.py --train_file books.txt --word_vectors glove.840B.300d.txt \
        --vocab_size 400000 --output_dir out/books

Without a file it trains on the Python documentation of this machine, offline; a small model takes minutes:

    accelerate launch examples/run_quickthoughts.py --hidden_size 300 --embedding_size 200 --vocab_size 20000 \
        --learning_rate 2e-3 --num_train_epochs 3 --eval_strategy epoch

Other targets are shared words, TF-IDF, or the one most similar sentence by TF-IDF; blocks are the loss of CURL (Arora
et al. 2019, https://arxiv.org/abs/1902.09229):

    accelerate launch examples/run_quickthoughts.py --targets tfidf_bin --hidden_size 300 --output_dir out/tfidf
    accelerate launch examples/run_quickthoughts.py --row_loss block --context_size 3 --hidden_size 300 \
        --output_dir out/curl
"""

import itertools
import sys
from dataclasses import dataclass, field

import numpy as np

from contrastive_st import (
    ContextWindowCollator,
    ContrastiveTrainer,
    ContrastiveTrainingArguments,
    CooccurrenceCollator,
    InputError,
    QuickThoughtsConfig,
    QuickThoughtsGRU,
    SentenceCorpus,
    embedding_matrix,
    read_word_vectors,
    run,
    train_word_tokenizer,
    vector_tokenizer,
)
from contrastive_st.data import corpus_texts, fit_idf
from contrastive_st.models import load_tokenizer
from contrastive_st.tokens import token_ids
from contrastive_st.training import script
from contrastive_st.training.arguments import CorpusArguments, ScriptArguments, SuiteArguments, told

DEFAULTS = {
    "output_dir": "out/quickthoughts",
    "per_device_train_batch_size": 400,
    "learning_rate": 5e-4,
    "lr_scheduler_type": "constant",
    "max_grad_norm": 5.0,
    "num_train_epochs": 1,
    "logging_steps": 20,
    "save_strategy": "no",
}


@dataclass
class QuickThoughtsArguments(ScriptArguments):
    """Targets, loss and towers."""

    targets: str = field(
        default="window",
        metadata={
            "help": "Targets of a sentence: next (the sentences after it), window (around it), counts or tfidf "
            "(softmax of shared words), tfidf_bin (the one most similar by TF-IDF)."
        },
    )
    row_loss: str = field(default="kl", metadata={"help": "kl, cross_entropy, l2, block (CURL) or pairwise."})
    context_size: int = field(default=1, metadata={"help": "Sentences on each side in the window."})
    context_weights: list[float] | None = field(
        default=None, metadata={"help": "One weight for each distance, nearest first; by default all 1."}
    )
    temperature: float | None = field(
        default=None, metadata={"help": "Temperature of the targets of counts (default 1) and tfidf (default 0.1)."}
    )
    label_smoothing: float = field(
        default=0.0, metadata={"help": "Total mass of each row of targets that is spread evenly."}
    )
    surrogate: str = field(
        default="logistic", metadata={"help": "Surrogate of the block and pairwise losses: logistic or hinge."}
    )
    encoder: str = field(default="gru", metadata={"help": "gru, lstm, bigru, bilstm or transformer."})
    hidden_size: int = field(default=1000, metadata={"help": "Width of one tower; the embedding has twice that."})
    embedding_size: int = field(default=620, metadata={"help": "Dimension of the word vectors without a file of them."})
    num_layers: int = field(default=1, metadata={"help": "Layers of a tower."})
    readout: str = field(default="last", metadata={"help": "last, max or mean."})
    dropout: float = field(
        default=0.0, metadata={"help": "Dropout on word vectors, between layers and on the readout."}
    )
    shared_embeddings: bool = field(default=False, metadata={"help": "Share the word vectors of f and g."})
    word_vectors: str | None = field(
        default=None, metadata={"help": "GloVe, word2vec or fastText file: its words and vectors to start from."}
    )
    word_vectors_use: str = field(
        default="trained", metadata={"help": "trained, frozen, or multichannel (a frozen and a trained channel)."}
    )
    vocab_size: int = field(
        default=50_000, metadata={"help": "Size of the vocabulary: the most frequent words, or the first of a file."}
    )
    max_length: int = field(default=30, metadata={"help": "Longest sentence, in words."})
    idf_sentences: int = field(default=200_000, metadata={"help": "Sentences from which IDF is computed."})


def main(argv: list[str] | None = None) -> dict[str, float]:
    groups = (CorpusArguments, QuickThoughtsArguments, SuiteArguments, ContrastiveTrainingArguments)
    data, own, suite, training = script.start(groups, DEFAULTS, argv)
    if own.word_vectors is None and own.word_vectors_use != "trained":
        raise InputError(f"--word_vectors_use {own.word_vectors_use} needs a file of vectors; give --word_vectors")

    # data: sentences in order, read from disk while training
    files, heldout = script.corpus_files(data.train_file, training)
    columns = (data.text_column, data.document_column)

    # tokenizer: the words of the vectors, or the most frequent ones of the corpus
    resume, vectors = training.resume_from_checkpoint, None
    if own.word_vectors:
        vectors = read_word_vectors(own.word_vectors, limit=own.vocab_size)
    if resume:
        tokenizer = load_tokenizer(resume)
    elif vectors is not None:
        tokenizer = vector_tokenizer(vectors, own.max_length)
    else:
        tokenizer = train_word_tokenizer(corpus_texts(files, *columns), own.vocab_size, own.max_length)
    corpus = SentenceCorpus(files, tokenizer, own.max_length, *columns)

    # model: two towers (f for a sentence, g for its neighbours) and the loss
    matrix = None if vectors is None else embedding_matrix(vectors, tokenizer)
    with told("the model"):
        config = QuickThoughtsConfig(
            vocab_size=len(tokenizer), embedding_size=own.embedding_size if matrix is None else matrix.shape[1],
            hidden_size=own.hidden_size, encoder=own.encoder.removeprefix("bi"),
            bidirectional=own.encoder.startswith("bi"), num_layers=own.num_layers, readout=own.readout,
            word_vectors=own.word_vectors_use, shared_embeddings=own.shared_embeddings, dropout=own.dropout,
        )  # fmt: skip
    model = QuickThoughtsGRU(
        config, targets=own.targets, row_loss=own.row_loss, context_size=own.context_size,
        context_weights=own.context_weights and tuple(own.context_weights), label_smoothing=own.label_smoothing,
        temperature=own.temperature or (0.1 if own.targets == "tfidf" else 1.0), surrogate=own.surrogate,
    )  # fmt: skip
    if matrix is not None:
        model.set_word_vectors(matrix)

    # collator: places in the corpus for windows; bags of words, weighted by IDF, for shared words
    if own.targets in ("next", "window"):
        script.check_window(training, corpus, own.context_size)
        collator = ContextWindowCollator(tokenizer)
    else:
        idf = None
        if own.targets != "counts":
            some = list(itertools.islice(corpus_texts(files, *columns), own.idf_sentences))
            idf = np.asarray(fit_idf(token_ids(tokenizer, some, own.max_length), len(tokenizer)))
        collator = CooccurrenceCollator(tokenizer, own.targets, idf)

    # training; the evaluation is a classifier of the embeddings
    trainer = ContrastiveTrainer(
        model=model, args=training, train_dataset=corpus, data_collator=collator, processing_class=tokenizer,
        evaluator=script.suite_evaluator(tokenizer, suite, heldout),
    )  # fmt: skip
    script.describe_data(trainer, data.train_file, data, own)
    return script.finish(trainer)


if __name__ == "__main__":
    sys.exit(run(main))
