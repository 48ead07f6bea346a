"""Skip-Thoughts (Kiros et al. 2015, https://arxiv.org/abs/1506.06726): generate the neighbours of a sentence.

On the Python documentation of this machine, offline, in minutes; at the end it prints the nearest sentences of four
queries:

    accelerate launch examples/run_skipthoughts.py

On your own corpus of sentences in order:

    accelerate launch examples/run_skipthoughts.py --train_file novels.txt --hidden_size 2400 --embedding_size 620 \\
        --max_steps -1 --num_train_epochs 1 --output_dir out/novels

`contrastive-st train skipthoughts` compares it with QuickThoughts on the same sentences.
"""

import itertools
import os
import sys
from dataclasses import dataclass, field

from contrastive_st.jobs import write_docs_corpus
from transformers import set_seed

from contrastive_st import (
    ContextWindowCollator,
    ContrastiveTrainer,
    ContrastiveTrainingArguments,
    SentenceCorpus,
    SentenceEncoder,
    SkipThoughts,
    SkipThoughtsConfig,
    TrainingParser,
    run,
    train_word_tokenizer,
)
from contrastive_st.data import corpus_texts
from contrastive_st.training import check_output_dir


@dataclass
class Arguments:
    """Data and model of the run."""

    train_file: str | None = field(default=None, metadata={"help": "Sentences in order; by default documentation."})
    hidden_size: int = field(default=240, metadata={"help": "Dimension of the sentence embedding."})
    embedding_size: int = field(default=100, metadata={"help": "Dimension of the word vectors."})
    bidirectional: bool = field(default=False, metadata={"help": "bi-skip: half of the embedding in each direction."})
    vocab_size: int = field(default=20_000, metadata={"help": "Size of the vocabulary: the most frequent words."})
    max_length: int = field(default=30, metadata={"help": "Longest sentence, in words, as in the paper."})
    search_sentences: int = field(default=20_000, metadata={"help": "Number of sentences to search for neighbours."})
    overwrite_output_dir: bool = field(default=False, metadata={"help": "Overwrite another run."})


DEFAULTS = {
    "output_dir": "out/skipthoughts",
    "per_device_train_batch_size": 128,
    "learning_rate": 1e-3,
    "max_grad_norm": 5.0,
    "max_steps": 200,
    "logging_steps": 50,
    "lr_scheduler_type": "constant",
    "save_strategy": "no",
    "report_to": "none",
}


def main() -> None:
    args, training = TrainingParser((Arguments, ContrastiveTrainingArguments)).parse(defaults=DEFAULTS)
    resume = check_output_dir(training, args.overwrite_output_dir)
    set_seed(training.seed)

    # data: sentences in order
    file = args.train_file or os.path.join(training.output_dir, "corpus.txt")
    if args.train_file is None:
        with training.main_process_first():
            write_docs_corpus(file)
    tokenizer = train_word_tokenizer(corpus_texts(file), args.vocab_size, args.max_length)
    corpus = SentenceCorpus(file, tokenizer, args.max_length)

    # model: an encoder, and two decoders that generate the sentences before and after; the loss is that of the decoders
    config = SkipThoughtsConfig(
        vocab_size=len(tokenizer), embedding_size=args.embedding_size, hidden_size=args.hidden_size,
        bidirectional=args.bidirectional,
    )  # fmt: skip
    model = SkipThoughts(config)
    trainer = ContrastiveTrainer(
        model=model, args=training, train_dataset=corpus, data_collator=ContextWindowCollator(tokenizer),
        processing_class=tokenizer,
    )  # fmt: skip
    trainer.train(resume_from_checkpoint=resume)
    trainer.accelerator.unwrap_model(trainer.model).drop_heads()  # the decoders
    trainer.save_model()

    # the nearest sentences of a few queries
    if trainer.is_world_process_zero():
        sentences = list(dict.fromkeys(itertools.islice(corpus_texts(file), args.search_sentences)))
        queries = [sentence for sentence in sentences if 6 <= len(sentence.split()) <= 16][::97][:4]
        scores = SentenceEncoder(trainer.accelerator.unwrap_model(trainer.model), tokenizer).similarity(
            queries, sentences
        )
        for query, row in zip(queries, scores, strict=True):
            print(f"\n{query}")
            for i in (-row).argsort()[1:4]:
                print(f"  {row[i]:.2f}  {sentences[i]}")
        print(f"\ncheckpoint in {training.output_dir}/")


if __name__ == "__main__":
    sys.exit(run(main))
