"""Train an encoder on documents: pick the next sentence of a document among sentences of many documents.

    contrastive-st train --train_file text.parquet --model_name_or_path microsoft/MiniLM-L12-H384-uncased \
        --pooling mean --output_dir out/neighbors

`--train_file` is a .txt with one sentence per line and a blank line between documents, or a .parquet or .jsonl with a
column `text` with one sentence per row, in order, and a column `doc` that names its document. Each sentence and the
next one are a pair, and a batch has pairs from many documents. The loss is InfoNCE, in which sentences of the same
document are not negatives. At the end the encoder is evaluated on held-out documents and compared with TF-IDF and with
the encoder before training.

`contrastive-st train` runs this script for text in documents and a given encoder, and `run_static.py` without one.
"""

import sys
from dataclasses import dataclass

from contrastive_st import ContrastiveTrainer, ContrastiveTrainingArguments, run, scripts
from contrastive_st.data import Documents, NeighborPairCollator, NeighborPairs, TokenFile
from contrastive_st.distributed import is_first_process
from contrastive_st.options import CountOrZero, Positive, option
from contrastive_st.scripts.arguments import CorpusArguments, EncoderArguments, ScriptArguments
from held_out_neighbors import HeldOutNeighbors

DEFAULTS = {
    "output_dir": "out/neighbors",
    "per_device_train_batch_size": 64,
    "learning_rate": 1e-4,
    "warmup_steps": 0.1,
    "max_steps": 1000,
    "logging_steps": 50,
}


@dataclass
class NeighborArguments(ScriptArguments):
    """The loss, and what is held out."""

    temperature: Positive = option("Temperature of InfoNCE; divides the cosines.", default=0.05)
    heldout: CountOrZero = option(
        "Hold out documents with about this many sentences in total for the evaluation.", default=2000
    )


def main(argv: list[str] | None = None) -> dict[str, float]:
    groups = (CorpusArguments, EncoderArguments, NeighborArguments, ContrastiveTrainingArguments)
    corpus, encoder, own, training = scripts.start(groups, DEFAULTS, argv)

    # data: documents to train on, and documents held out
    files, _ = scripts.corpus_files(corpus.train_file, training)
    documents = Documents.read(files, corpus.text_column, corpus.document_column, own.heldout)

    # model, and the token ids of the documents on disk
    model, tokenizer = scripts.open_encoder(
        encoder, documents.texts(), training.resume_from_checkpoint, loss="document_info_nce",
        temperature=own.temperature, **scripts.no_prompts(encoder, "training on neighbours"),
    )  # fmt: skip
    with training.main_process_first(desc="tokenize"):
        tokens = TokenFile.write(documents, tokenizer, tokenizer.model_max_length)

    # training
    held_out = documents.neighbors(own.heldout)
    found = HeldOutNeighbors(tokenizer, held_out, documents.sample(50_000))
    trainer = ContrastiveTrainer(
        model=model, args=training, train_dataset=NeighborPairs(tokens), data_collator=NeighborPairCollator(tokenizer),
        processing_class=tokenizer, evaluator=found if held_out else None,
    )  # fmt: skip
    scripts.describe_data(trainer, corpus.train_file, corpus, encoder, own)
    figures = scripts.finish(trainer)
    if held_out and is_first_process() and not trainer.sigterm.stopped:
        scripts.done(found.report())
    return figures


if __name__ == "__main__":
    sys.exit(run(main))
