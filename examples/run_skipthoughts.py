"""Skip-Thoughts (Kiros et al. 2015, https://arxiv.org/abs/1506.06726): generate the previous and the next sentence.

The defaults are the published settings of uni-skip: 2400 dimensions, 20,000 words of 620 dimensions, sentences of 30
words, batch 64, Adam, gradients clipped to norm 5. The learning rate is Adam's default, 1e-3, for one epoch; the
authors give neither, only that training took two weeks. On your own sentences in order:

    accelerate launch examples/run_skipthoughts.py --train_file novels.txt --output_dir out/novels

Without a file it trains on the Python documentation of this machine, offline; a small model takes minutes:

    accelerate launch examples/run_skipthoughts.py --hidden_size 240 --embedding_size 100 \
        --per_device_train_batch_size 128 --max_steps 200

At the end it prints the nearest sentences of a few queries, by cosine, and writes them to neighbors.md in the
checkpoint folder. To compare them with those of other encoders: `contrastive-st neighbors FOLDER FOLDER --corpus FILE`.
"""

import itertools
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from contrastive_st import (
    ContextWindowCollator,
    ContrastiveTrainer,
    ContrastiveTrainingArguments,
    SentenceCorpus,
    SentenceEncoder,
    SkipThoughts,
    SkipThoughtsConfig,
    run,
    scripts,
    train_word_tokenizer,
)
from contrastive_st.data import corpus_texts
from contrastive_st.errors import about
from contrastive_st.evaluation.neighbor_search import as_markdown, as_text, neighbors
from contrastive_st.models import load_tokenizer
from contrastive_st.options import Count, option
from contrastive_st.scripts.arguments import CorpusArguments, ScriptArguments, SuiteArguments

DEFAULTS = {
    "output_dir": "out/skipthoughts",
    "per_device_train_batch_size": 64,
    "learning_rate": 1e-3,
    "lr_scheduler_type": "constant",
    "max_grad_norm": 5.0,
    "num_train_epochs": 1,
    "logging_steps": 50,
    "save_strategy": "no",
    "eval_tasks": "MR,CR,SST2,TREC,STSB",
}


@dataclass
class SkipThoughtsArguments(ScriptArguments):
    """The model, and the neighbours that are printed."""

    hidden_size: Count = option("Dimension of the sentence embedding.", default=2400)
    embedding_size: Count = option("Dimension of the word vectors.", default=620)
    bidirectional: bool = option(
        "Encode in both directions (bi-skip), with half of the dimensions for each.", default=False
    )
    vocab_size: Count = option("Size of the vocabulary: the most frequent words.", default=20_000)
    max_length: Count = option("Maximum length of a sentence, in words.", default=30)
    queries: list[str] | None = option(
        "Sentences whose nearest sentences of the corpus are printed at the end; by default four of the corpus."
    )
    k: Count = option("Number of nearest sentences to print for each.", default=4)
    search_sentences: Count = option("Number of sentences of the corpus that are searched.", default=100_000)


def main(argv: list[str] | None = None) -> dict[str, float]:
    groups = (CorpusArguments, SkipThoughtsArguments, SuiteArguments, ContrastiveTrainingArguments)
    data, own, suite, training = scripts.start(groups, DEFAULTS, argv)

    # data: sentences in order, read from disk while training
    files, heldout = scripts.corpus_files(data.train_file, training)
    columns, resume = (data.text_column, data.document_column), training.resume_from_checkpoint
    tokenizer = (
        load_tokenizer(resume) if resume
        else train_word_tokenizer(corpus_texts(files, *columns), own.vocab_size, own.max_length)
    )  # fmt: skip
    corpus = SentenceCorpus(files, tokenizer, own.max_length, *columns)
    scripts.check_window(training, corpus)

    # model: an encoder, and two decoders that generate the sentences before and after; the loss is that of the decoders
    with about("the model"):
        config = SkipThoughtsConfig(
            vocab_size=len(tokenizer), embedding_size=own.embedding_size, hidden_size=own.hidden_size,
            bidirectional=own.bidirectional,
        )  # fmt: skip

    # training; the evaluation is a classifier of the embeddings
    trainer = ContrastiveTrainer(
        model=SkipThoughts(config), args=training, train_dataset=corpus, processing_class=tokenizer,
        data_collator=ContextWindowCollator(tokenizer), evaluator=scripts.suite_evaluator(tokenizer, suite, heldout),
    )  # fmt: skip
    scripts.describe_data(trainer, data.train_file, data, own)
    figures = scripts.finish(trainer)  # without the decoders

    # the nearest sentences of a few
    if trainer.is_world_process_zero() and not trainer.sigterm.stopped:
        texts = list(dict.fromkeys(itertools.islice(corpus_texts(files, *columns), own.search_sentences)))
        some = [text for text in texts if 6 <= len(text.split()) <= 16] or texts
        queries = own.queries or np.random.default_rng(0).choice(some, min(4, len(some)), replace=False).tolist()
        encoder = SentenceEncoder(trainer.accelerator.unwrap_model(trainer.model), tokenizer, name="skipthoughts")
        found = {"skipthoughts": neighbors(encoder, queries, texts, own.k)}
        scripts.done(as_text(queries, found, shutil.get_terminal_size((120, 24)).columns))
        caption = f"The nearest of {len(texts):,} distinct sentences, by cosine similarity."
        Path(training.output_dir, "neighbors.md").write_text(as_markdown(queries, found, caption), encoding="utf-8")
    return figures


if __name__ == "__main__":
    sys.exit(run(main))
