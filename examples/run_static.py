"""Train a static encoder on documents alone: no pre-trained encoder, no labels, no GPU.

    contrastive-st train --train_file text.parquet --output_dir out/mine

`--train_file` is a .txt with one sentence per line and a blank line between documents, or a .parquet or .jsonl with a
column `text` with one sentence per row, in order, and a column `doc` that names its document. The vocabulary is
learned from the text, in any language. Vectors start as random directions of the letters of a word, weighted by IDF
and SIF. Most dimensions are not trained, and compare two sentences as TF-IDF of characters does. The others are
trained by InfoNCE, so that a sentence finds the next one among the sentences of other documents. At the end the
encoder is evaluated on held-out documents and compared with TF-IDF of words and of characters, and with the encoder
before training.

The checkpoint opens in this package, in sentence-transformers and in model2vec.
"""

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor
from transformers import TrainerCallback

from contrastive_st import ContrastiveTrainer, ContrastiveTrainingArguments, StaticEncoder, run, scripts
from contrastive_st.data import (
    Documents,
    NeighborPairCollator,
    NeighborPairs,
    TokenFile,
    sif_weights,
    train_subword_tokenizer,
)
from contrastive_st.data.tokenizers import words_of
from contrastive_st.distributed import is_first_process, world_size
from contrastive_st.errors import InputError
from contrastive_st.models import load_tokenizer
from contrastive_st.models.static_encoder import silent_ids
from contrastive_st.options import Count, CountOrZero, Positive, Share, option
from contrastive_st.scripts.arguments import CorpusArguments, ScriptArguments
from contrastive_st.tokens import token_ids
from contrastive_st.training.optimizers import RowAdam
from held_out_neighbors import HeldOutNeighbors
from letters import channels, untrained_static, whitened

DEFAULTS = {
    "output_dir": "out/static",
    "per_device_train_batch_size": 2048,
    "learning_rate": 3e-3,
    "warmup_steps": 0.05,
    "max_steps": 400,
    "max_grad_norm": 0,
    "logging_steps": 50,
    "save_strategy": "no",
    "report_to": ["none"],
}


@dataclass
class StaticArguments(ScriptArguments):
    """The vocabulary, the vectors, the loss, and what is held out."""

    vocab_size: Count = option("Maximum vocabulary size, in tokens.", default=80_000)
    hidden_size: Count = option("Dimension of the embedding.", default=1024)
    trained_size: Count | None = option(
        "Number of dimensions that are trained; the others are fixed, and represent the character n-grams of a "
        "sentence, like TF-IDF. By default 300, or --hidden_size if that is smaller."
    )
    max_length: Count = option("Maximum length of a sentence in training, in tokens.", default=128)
    sif: Positive = option(
        "SIF weighting: a token of relative frequency p has the weight sqrt(sif / (sif + p)) before training.",
        default=3e-4,
    )
    temperature: Positive = option("Temperature of InfoNCE; divides the cosines.", default=0.05)
    letters: Share = option(
        "Weight that the fixed dimensions (of character n-grams; those beyond --trained_size) have in the cosine.",
        default=0.4,
    )
    heldout: CountOrZero = option(
        "Hold out documents with about this many sentences in total for the evaluation.", default=2000
    )


class SilentTokens(TrainerCallback):
    """Keeps the vectors of tokens without a meaning at zero: other loaders leave these tokens out.

    Args:
        ids: the tokens.
    """

    def __init__(self, ids: list[int]) -> None:
        self.ids = ids

    def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
        """Set them to zero again after a step."""
        getattr(model, "module", model).embeddings.data[self.ids] = 0


class LettersBeside(TrainerCallback):
    """At the end, puts the dimensions of the letters before the trained ones, and whitens all of them in part.

    What neighbours teach about the topic of a sentence is then added to its words, and does not replace them.

    Args:
        letters: `[V, d]`, which are not trained.
        share: their share in the cosine of typical sentences.
        rows: token ids of sentences of the text.
        silent: tokens without a meaning.
    """

    def __init__(self, letters: Tensor, share: float, rows: list[list[int]], silent: list[int]) -> None:
        self.letters, self.share, self.rows, self.silent = letters, share, rows, silent

    def on_train_end(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
        """Put the two parts together, and whiten them."""
        own = getattr(model, "module", model)
        trained = own.embeddings.detach().cpu()
        both = channels([self.letters, trained], [self.share, 1 - self.share], self.rows)
        own.embeddings.data = whitened(both, self.rows, self.silent, power=0.2).to(own.device)
        own.config.hidden_size = own.embeddings.shape[1]


def main(argv: list[str] | None = None) -> dict[str, float]:
    groups = (CorpusArguments, StaticArguments, ContrastiveTrainingArguments)
    corpus, own, training = scripts.start(groups, DEFAULTS, argv)
    for name in ("optim", "optim_args", "weight_decay"):
        if getattr(training, name) != getattr(ContrastiveTrainingArguments, name):
            raise InputError(f"--{name} has no use here: the optimizer is Adam of the rows of a batch; leave it out")
    own.trained_size = own.trained_size or min(300, own.hidden_size)
    if own.trained_size > own.hidden_size:
        raise InputError(f"--trained_size {own.trained_size} is more than --hidden_size {own.hidden_size}")

    # data: documents to train on and held out, their vocabulary, and their token ids on disk
    files, _ = scripts.corpus_files(corpus.train_file, training)
    documents = Documents.read(files, corpus.text_column, corpus.document_column, own.heldout)
    if training.resume_from_checkpoint:
        tokenizer = load_tokenizer(training.resume_from_checkpoint)
    else:
        tokenizer = train_subword_tokenizer(documents.texts(), own.vocab_size)
    with training.main_process_first(desc="tokenize"):
        tokens = TokenFile.write(documents, tokenizer, own.max_length)

    # model: directions of the tokens' letters; a step updates the rows of its own tokens in the trained dimensions
    weights = np.sqrt(sif_weights(tokens.counts, own.sif))
    weights[silent := silent_ids(tokenizer)] = 0
    start = untrained_static(
        words_of(tokenizer), weights, own.hidden_size, training.seed, tokens.frequencies, len(tokens),
    )  # fmt: skip
    letters, trained = start.table().detach().split([own.hidden_size - own.trained_size, own.trained_size], 1)
    model = StaticEncoder.from_table(trained, loss="document_info_nce", temperature=own.temperature)
    model.sparse_gradient = world_size() == 1 and not training.max_grad_norm  # DDP and clipping need dense ones
    betas = (training.adam_beta1, training.adam_beta2)
    optimizer = RowAdam(model.parameters(), training.learning_rate, betas, training.adam_epsilon)

    # training
    held_out, sample = documents.neighbors(own.heldout), documents.sample(50_000)
    found = HeldOutNeighbors(tokenizer, held_out, sample)
    if held_out:
        found(start)
    beside = LettersBeside(letters, own.letters, token_ids(tokenizer, sample, own.max_length), silent)
    trainer = ContrastiveTrainer(
        model=model, args=training, train_dataset=NeighborPairs(tokens), data_collator=NeighborPairCollator(tokenizer),
        processing_class=tokenizer, optimizers=(optimizer, None), evaluator=found if held_out else None,
        callbacks=[SilentTokens(silent), beside],
    )  # fmt: skip
    scripts.describe_data(trainer, corpus.train_file, corpus, own)
    figures = scripts.finish(trainer)
    if held_out and is_first_process() and not trainer.sigterm.stopped:
        scripts.done(found.report())
    return figures


if __name__ == "__main__":
    sys.exit(run(main))
