"""Cutoff (Shen et al. 2020, https://arxiv.org/abs/2009.13818): views of a sentence with different parts cut out.

The ratio 0.1 and the weight 1 of the divergence are published. The paper is on classification and translation, so it
has no settings for sentence embeddings; the other defaults are those of unsupervised SimCSE (batch 64, rate 3e-5, one
epoch, T = 0.05, a projection head in training only):

    accelerate launch examples/run_cutoff.py --train_file wiki1m_for_simcse.txt --model_name_or_path bert-base-uncased
    accelerate launch examples/run_cutoff.py --train_file nli_for_simcse.csv --model_name_or_path bert-base-uncased \
        --cutoff token --output_dir out/cutoff_nli

Without a file it trains a small BERT on the Python documentation of this machine, offline:

    accelerate launch examples/run_cutoff.py --max_steps 100
"""

import sys
from dataclasses import dataclass

from contrastive_st import (
    ContrastiveTrainer,
    ContrastiveTrainingArguments,
    run,
    scripts,
)
from contrastive_st.evaluation import sts_evaluator
from contrastive_st.options import Share, option
from contrastive_st.scripts.arguments import (
    DataArguments,
    EncoderArguments,
    MatryoshkaArguments,
    ScriptArguments,
    ValidationArguments,
    WordsLossArguments,
    loss_arguments,
)

LossArguments = loss_arguments(["consistent_info_nce", "info_nce"])
DEFAULTS = {
    "output_dir": "out/cutoff",
    "per_device_train_batch_size": 64,
    "learning_rate": 3e-5,
    "num_train_epochs": 1,
    "logging_steps": 50,
}


@dataclass
class Arguments(ScriptArguments):
    """Options of this script alone."""

    cutoff: str = option("What is cut out: token, span or feature.", default="span")
    cutoff_ratio: Share = option("Share of the sentence that is cut out.", default=0.1)


def main(argv: list[str] | None = None) -> dict[str, float]:
    groups = (
        DataArguments,
        ValidationArguments,
        EncoderArguments,
        LossArguments,
        MatryoshkaArguments,
        WordsLossArguments,
        Arguments,
    )
    data, validation, encoder, loss, matryoshka, words, own, training = scripts.start(
        (*groups, ContrastiveTrainingArguments), DEFAULTS, argv
    )

    # data: one column (texts), two (pairs) or more (hard negatives)
    kinds = ("texts", "pairs", "triplets")
    rows = (
        scripts.read_rows(data, validation, training, kinds, "each is encoded twice, with other features cut off")
        if data.train_file
        else scripts.documentation_rows(data, validation)
    )

    # model: it cuts its own input while it trains; InfoNCE, and the divergence of the two views
    settings = matryoshka.over(loss.settings("consistent_info_nce"))
    settings |= {"cutoff": own.cutoff, "cutoff_ratio": own.cutoff_ratio, **words.settings}
    if scripts.recorded_pooling(encoder) is None and rows.kind == "texts":  # a new head
        settings["mlp_only_train"] = True
    model, tokenizer = scripts.open_encoder(
        encoder, scripts.every_text(rows.texts), training.resume_from_checkpoint, pooling="cls", **settings
    )
    tokens = scripts.tokenized(rows.texts, model, tokenizer, training, data.preprocessing_num_workers)

    # training; the evaluation is STS-B dev, if CONTRASTIVE_ST_DATA has it
    trainer = ContrastiveTrainer(
        model=model, args=training, train_dataset=tokens, processing_class=tokenizer,
        data_collator=rows.dropout_collator(tokenizer, **words.masking), evaluator=sts_evaluator(tokenizer),
        **scripts.validation_parts(rows, model, tokenizer, training),
    )  # fmt: skip
    scripts.describe_data(
        trainer, data.train_file, data, encoder, loss, matryoshka, words, own, licence=rows.texts.info.license
    )
    return scripts.finish(trainer)


if __name__ == "__main__":
    sys.exit(run(main))
