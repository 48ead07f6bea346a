"""QuickThoughts and variants (Logeswaran and Lee 2018, https://arxiv.org/abs/1803.02893): find adjacent sentences.

Two towers learn to find the neighbours of each sentence among the sentences of the batch. The defaults are published
settings: batch 400, Adam with learning rate 5e-4 without decay, gradients clipped to norm 5, one epoch, sentences of 30
words, 50,000 words of 620 dimensions (300 with the paper's file of GloVe vectors), a window of one sentence on each
side. A tower has 1000 dimensions; the authors' code has 1200. On your own sentences in order (one per line, a blank
line between documents):

    accelerate launch examples/run_quickthoughts.py --train_file books.txt --word_vectors glove.840B.300d.txt \
        --vocab_size 400000 --output_dir out/books

Without a file it trains on the Python documentation of this machine, offline; a small model takes minutes:

    accelerate launch examples/run_quickthoughts.py --hidden_size 300 --embedding_size 200 --vocab_size 20000 \
        --learning_rate 2e-3 --num_train_epochs 3 --eval_strategy epoch

Other targets are shared words, TF-IDF, or the one most similar sentence by TF-IDF; the loss block is that of CURL
(Arora et al. 2019, https://arxiv.org/abs/1902.09229):

    accelerate launch examples/run_quickthoughts.py --targets tfidf_bin --hidden_size 300 --output_dir out/tfidf
    accelerate launch examples/run_quickthoughts.py --row_loss block --context_size 3 --hidden_size 300 \
        --output_dir out/curl

The published loss compares dot products and uses the rest of the document as negatives. For embeddings that are
compared by cosine, other settings are far better (results in docs/quickthoughts.md): cosines, the mean of the states,
one matrix of word vectors fitted to the text, and no negatives from the same document:

    accelerate launch examples/run_quickthoughts.py --scores cosine --own_document mask --run_length 8 \
        --readout mean --word_vectors corpus --shared_embeddings true --hidden_size 300 --embedding_size 300 \
        --learning_rate 2e-3 --targets next --output_dir out/next
"""

import itertools
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

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
    scripts,
    train_word_tokenizer,
    vector_tokenizer,
)
from contrastive_st.data import corpus_texts, corpus_word_vectors, fit_idf, sif_weights, word_counts
from contrastive_st.errors import about
from contrastive_st.losses import ReconstructionLoss
from contrastive_st.models import load_tokenizer
from contrastive_st.options import Count, CountOrZero, NotNegative, Positive, Share, option
from contrastive_st.scripts.arguments import CorpusArguments, ScriptArguments, SuiteArguments
from contrastive_st.tokens import token_ids

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

    targets: str = option(
        "Targets of a sentence: next (the sentences after it), window (the sentences around it), "
        "counts (a softmax over the numbers of words that the candidates share with the sentence), tfidf (the same "
        "over their TF-IDF similarities to the sentence), tfidf_bin (the most similar sentence by TF-IDF).",
        default="window",
    )
    row_loss: str = option("Loss of each sentence: kl, cross_entropy, l2, block (CURL) or pairwise.", default="kl")
    context_size: Count = option("Number of sentences on each side in the window.", default=1)
    context_weights: list[float] | None = option("One weight for each distance, nearest first; by default all 1.")
    scores: str = option("Scores of the candidates: dot or cosine.", default="dot")
    temperature: Positive | None = option("Temperature of the scores; by default 1 for dot, 0.05 for cosine.")
    own_document: str = option(
        "What to do with candidates from the sentence's own document that are not its targets: use them as negatives, "
        "or mask them.",
        default="negatives",
    )
    target_temperature: Positive | None = option(
        "Temperature of the softmax of --targets counts (default 1) or tfidf (default 0.1)."
    )
    run_length: Count | None = option(
        "Batches are made of runs of this many consecutive sentences, drawn from the whole corpus; by "
        "default a batch is one run."
    )
    label_smoothing: Share = option(
        "Share of the target probability that is spread evenly over all candidates.", default=0.0
    )
    surrogate: str = option("Surrogate of the block and pairwise losses: logistic or hinge.", default="logistic")
    encoder: str = option(
        "Type of the encoder: gru, lstm, bigru, bilstm, transformer, or mean (of the word vectors).", default="gru"
    )
    hidden_size: Count = option(
        "Dimension of each tower's output; the embedding of two towers has twice this dimension.", default=1000
    )
    embedding_size: Count = option("Dimension of the word vectors, if --word_vectors names no file.", default=620)
    num_layers: CountOrZero = option("Number of layers of each tower.", default=1)
    readout: str = option("Sentence vector from the hidden states: last, max or mean.", default="last")
    towers: int = option(
        "2: separate encoders f for the sentence and g for its targets; 1: one encoder for both.", default=2
    )
    dropout: Share = option("Dropout on word vectors, between layers and on the readout.", default=0.0)
    shared_embeddings: bool = option("Share the word vectors of f and g.", default=False)
    word_vectors: str | None = option(
        "Initial words and vectors: a GloVe, word2vec or fastText file, or 'corpus', to fit vectors to the "
        "training text (PPMI and a truncated SVD). By default random vectors."
    )
    word_weights: str | None = option(
        "sif: multiply word vectors by a / (a + frequency), a = 1e-3 (Arora et al. 2017)."
    )
    word_vectors_use: str = option(
        "How word vectors of --word_vectors are used: trained, frozen, or multichannel (a frozen and a trained "
        "channel).",
        default="trained",
    )
    vocab_size: Count = option(
        "Size of the vocabulary: the most frequent words, or the first ones of the file of --word_vectors.",
        default=50_000,
    )
    reconstruction: NotNegative = option(
        "Weight of a second loss, which predicts the words of a sentence from its vector; 0: none.", default=0.0
    )
    max_length: Count = option("Maximum length of a sentence, in words.", default=30)
    idf_sentences: Count = option("Number of sentences from which IDF is computed.", default=200_000)

    def conflicts(self) -> Iterator[str]:
        """Yield a use of word vectors without any, and a dimension with vectors that have one."""
        if self.word_vectors is None and self.word_vectors_use != "trained":
            yield f"--word_vectors_use {self.word_vectors_use} needs a file of vectors; give --word_vectors"
        if self.word_vectors not in (None, "corpus"):
            yield from self.unused("with a file of --word_vectors", "embedding_size")


def main(argv: list[str] | None = None) -> dict[str, float]:
    groups = (CorpusArguments, QuickThoughtsArguments, SuiteArguments, ContrastiveTrainingArguments)
    data, own, suite, training = scripts.start(groups, DEFAULTS, argv)
    if own.word_weights not in (None, "sif"):
        raise InputError(f"--word_weights {own.word_weights} is unknown; give sif, or leave it out")

    # data: sentences in order, read from disk while training
    files, heldout = scripts.corpus_files(data.train_file, training)
    columns = (data.text_column, data.document_column)

    # tokenizer: the words of the vectors, or the most frequent ones of the corpus
    resume, vectors = training.resume_from_checkpoint, None
    if own.word_vectors not in (None, "corpus"):
        vectors = read_word_vectors(own.word_vectors, limit=own.vocab_size)
    if resume:
        tokenizer = load_tokenizer(resume)
    elif vectors is not None:
        tokenizer = vector_tokenizer(vectors, own.max_length)
    else:
        tokenizer = train_word_tokenizer(corpus_texts(files, *columns), own.vocab_size, own.max_length)
    corpus = SentenceCorpus(files, tokenizer, own.max_length, *columns, run_length=own.run_length)

    # word vectors: of the file, or fitted to the sentences of the corpus
    def sentences() -> Iterator[list[int]]:
        texts = corpus_texts(files, *columns)
        while some := list(itertools.islice(texts, 10_000)):
            yield from token_ids(tokenizer, some, own.max_length)

    matrix = None if vectors is None else embedding_matrix(vectors, tokenizer)
    if own.word_vectors == "corpus" and not resume:
        matrix = corpus_word_vectors(sentences(), len(tokenizer), own.embedding_size, seed=training.seed)

    # model: two towers (f for a sentence, g for its neighbours) and the loss
    with about("the model"):
        config = QuickThoughtsConfig(
            vocab_size=len(tokenizer), embedding_size=own.embedding_size if matrix is None else matrix.shape[1],
            hidden_size=own.hidden_size, encoder=own.encoder.removeprefix("bi"),
            bidirectional=own.encoder.startswith("bi"), num_layers=own.num_layers, readout=own.readout,
            word_vectors=own.word_vectors_use, shared_embeddings=own.shared_embeddings, dropout=own.dropout,
            towers=own.towers, word_weights=own.word_weights is not None,
        )  # fmt: skip
    model = QuickThoughtsGRU(
        config, targets=own.targets, row_loss=own.row_loss, context_size=own.context_size,
        context_weights=own.context_weights and tuple(own.context_weights), label_smoothing=own.label_smoothing,
        target_temperature=own.target_temperature or (0.1 if own.targets == "tfidf" else 1.0),
        scores=own.scores, temperature=own.temperature, own_document=own.own_document, surrogate=own.surrogate,
    )  # fmt: skip
    if own.reconstruction:
        model.use_loss(ReconstructionLoss(model.settings.loss, len(tokenizer), own.reconstruction))
    if matrix is not None:
        model.set_word_vectors(matrix)
    if own.word_weights and not resume:
        model.set_word_weights(torch.from_numpy(sif_weights(word_counts(sentences(), len(tokenizer)))))

    # collator: places in the corpus for windows; bags of words, weighted by IDF, for shared words
    if own.targets in ("next", "window"):
        scripts.check_window(training, corpus, own.context_size, own.run_length)
        collator = CooccurrenceCollator(tokenizer) if own.reconstruction else ContextWindowCollator(tokenizer)
    else:
        idf = None
        if own.targets != "counts":
            idf = np.asarray(fit_idf(itertools.islice(sentences(), own.idf_sentences), len(tokenizer)))
        collator = CooccurrenceCollator(tokenizer, own.targets, idf)

    # training; the evaluation is a classifier of the embeddings
    trainer = ContrastiveTrainer(
        model=model, args=training, train_dataset=corpus, data_collator=collator, processing_class=tokenizer,
        evaluator=scripts.suite_evaluator(tokenizer, suite, heldout),
    )  # fmt: skip
    scripts.describe_data(trainer, data.train_file, data, own)
    return scripts.finish(trainer)


if __name__ == "__main__":
    sys.exit(run(main))
