"""Sentence-BERT (Reimers and Gurevych 2019, https://arxiv.org/abs/1908.10084): pairs with labels or scores, triplets.

The columns of the file decide which loss is trained: `label` softmax, `score` cosine_similarity (or cosent, angle),
three columns of text triplet (Euclidean, margin 1). With the published settings, which are the defaults (mean pooling,
batch 16, rate 2e-5, 10% of the steps as warm-up, one epoch):

    accelerate launch examples/run_sbert.py --train_file allnli.csv --model_name_or_path bert-base-uncased
    accelerate launch examples/run_sbert.py --train_file stsb.csv --model_name_or_path out/sbert \
        --num_train_epochs 4 --output_dir out/sbert_sts

(Four epochs for STS-B, as in the paper.) Without a file it trains a small BERT on summaries and paragraphs of the
Python documentation of this machine, offline; `--loss` chooses the loss:

    accelerate launch examples/run_sbert.py --loss triplet --hidden_size 128 --num_layers 1 --max_length 48 \
        --per_device_train_batch_size 64 --learning_rate 1e-3 --max_steps 180
"""

import sys

from contrastive_st import (
    ContrastiveTrainer,
    ContrastiveTrainingArguments,
    InputError,
    run,
    scripts,
)
from contrastive_st.data.docs_sets import labelled_docs, triplets_of
from contrastive_st.evaluation import sts_evaluator
from contrastive_st.evaluation.docs_search import DocsSearch
from contrastive_st.losses.base import loss_class
from contrastive_st.scripts.arguments import (
    DataArguments,
    EncoderArguments,
    MatryoshkaArguments,
    ValidationArguments,
    loss_arguments,
)

RANKED = ("cosine_similarity", "cosent", "angle")
LOSSES = {
    "labelled_pairs": ("softmax",), "scored_pairs": RANKED, "labelled_texts": RANKED, "triplets": ("triplet",),
}  # fmt: skip
LossArguments = loss_arguments(["softmax", *RANKED, "triplet"])
DEFAULTS = {
    "output_dir": "out/sbert",
    "per_device_train_batch_size": 16,
    "learning_rate": 2e-5,
    "warmup_steps": 0.1,
    "num_train_epochs": 1,
    "logging_steps": 50,
}


def main(argv: list[str] | None = None) -> dict[str, float]:
    groups = (
        DataArguments, ValidationArguments, EncoderArguments, LossArguments, MatryoshkaArguments,
        ContrastiveTrainingArguments,
    )  # fmt: skip
    data, validation, encoder, loss, matryoshka, training = scripts.start(groups, DEFAULTS, argv)

    # data: two columns of text and `label` or `score`, or three columns of text; without a file documentation
    docs = None if data.train_file else DocsSearch.load()
    if docs:
        settings = loss.settings("softmax")
        labelled = labelled_docs(docs.training)
        if settings["loss"] == "triplet":
            made, kind = triplets_of(labelled), "triplets"
        elif settings["loss"] == "softmax":
            made, kind = labelled.remove_columns("score"), "labelled_pairs"
        else:
            made, kind = labelled.remove_columns("label"), "scored_pairs"
        rows = scripts.documentation_rows(data, validation, made.shuffle(training.seed), kind)
    else:
        rows = scripts.read_rows(data, validation, training, list(LOSSES))
        settings = loss.settings(LOSSES[rows.kind][0])
    if settings["loss"] not in LOSSES[rows.kind]:
        raise InputError(f"--loss {settings['loss']} does not train such rows; choose {', '.join(LOSSES[rows.kind])}")
    settings = loss_class(settings["loss"]).settings_from(rows.texts) | settings

    # model: mean pooling, or what the encoder to start from records; for labels the loss has a classifier
    model, tokenizer = scripts.open_encoder(
        encoder,
        scripts.every_text(rows.texts),
        training.resume_from_checkpoint,
        pooling="mean",
        **matryoshka.over(settings),
    )
    tokens = scripts.tokenized(rows.texts, model, tokenizer, training, data.preprocessing_num_workers)

    # training; the evaluation is search of held-out documentation, or STS-B dev, if CONTRASTIVE_ST_DATA has it
    trainer = ContrastiveTrainer(
        model=model, args=training, train_dataset=tokens, processing_class=tokenizer,
        data_collator=rows.collator(tokenizer),
        evaluator=docs.evaluator(tokenizer) if docs else sts_evaluator(tokenizer),
        **scripts.validation_parts(rows, model, tokenizer, training),
    )  # fmt: skip
    scripts.describe_data(trainer, data.train_file, data, encoder, loss, matryoshka, licence=rows.texts.info.license)
    return scripts.finish(trainer)


if __name__ == "__main__":
    sys.exit(run(main))
