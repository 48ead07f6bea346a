"""SimCSE, unsupervised and supervised (Gao, Yao and Chen 2021, https://arxiv.org/abs/2104.08821).

Unsupervised, with the published settings for BERT-base, which are the defaults (batch 64, rate 3e-5, one epoch,
T = 0.05, a projection head in training only). A text is a pair with itself, under two dropout masks:

    accelerate launch examples/run_simcse.py --train_file wiki1m_for_simcse.txt --model_name_or_path bert-base-uncased

Supervised, on triplets of NLI, with the published settings for BERT-base on four processes:

    accelerate launch --num_processes 4 examples/run_simcse.py --train_file nli_for_simcse.csv \
        --model_name_or_path bert-base-uncased --per_device_train_batch_size 128 --learning_rate 5e-5 \
        --num_train_epochs 3 --output_dir out/simcse_nli

Without a file it trains a small BERT on the Python documentation of this machine, offline:

    accelerate launch examples/run_simcse.py --max_steps 100
    accelerate launch --config_file examples/accelerate/two_cpu_processes.yaml examples/run_simcse.py --max_steps 20

The paper truncates training texts to 32 tokens, which `--max_length 32` does; the saved encoder then truncates too.
"""

import sys
from dataclasses import dataclass

from contrastive_st import (
    ContrastiveTrainer,
    ContrastiveTrainingArguments,
    InputError,
    SentenceCorpus,
    run,
    scripts,
)
from contrastive_st.evaluation import sts_evaluator
from contrastive_st.options import CountOrZero, Finite, Positive, option
from contrastive_st.scripts.arguments import DataArguments, EncoderArguments, ValidationArguments, WordsLossArguments

DEFAULTS = {
    "output_dir": "out/simcse",
    "per_device_train_batch_size": 64,
    "learning_rate": 3e-5,
    "num_train_epochs": 1,
    "logging_steps": 50,
}


@dataclass
class SimCSEArguments(WordsLossArguments):
    """The loss and the head of SimCSE."""

    temperature: Positive = option("Temperature of InfoNCE; divides the cosines.", default=0.05)
    hard_negative_weight: Finite = option("Logarithm of the weight of an anchor's hard negatives.", default=0.0)
    symmetric: bool = option(
        "Add the loss in the other direction, in which each positive has to find its anchor.", default=False
    )
    mlp_only_train: bool | None = option(
        "Use the projection head only in training, not for the final embedding. By default on if the data has single "
        "texts, as in the paper."
    )
    shuffle_buffer: CountOrZero = option(
        "Read a .parquet or .txt file with one text column from disk while training, through a shuffle buffer of this "
        "many sentences, such as 10000. 0: all rows are tokenized first, and the whole file is shuffled.",
        default=0,
    )


def main(argv: list[str] | None = None) -> dict[str, float]:
    groups = (DataArguments, ValidationArguments, EncoderArguments, SimCSEArguments, ContrastiveTrainingArguments)
    data, validation, encoder, own, training = scripts.start(groups, DEFAULTS, argv)

    # data: one column (texts), two (pairs) or more (hard negatives)
    kinds = ("texts", "pairs", "triplets")
    rows = (
        scripts.read_rows(data, validation, training, kinds, "each is encoded twice, with other dropout")
        if data.train_file
        else scripts.documentation_rows(data, validation)
    )
    texts, single = rows.texts, rows.kind == "texts"

    # model: InfoNCE over the first token, through a head that is dropped after unsupervised training
    names = ("temperature", "hard_negative_weight", "symmetric", "do_mlm", "mlm_weight", "mlp_only_train")
    settings = {name: value for name in names if (value := getattr(own, name)) is not None}
    if scripts.recorded_pooling(encoder) is None and single:  # else the head stays what the encoder records
        settings.setdefault("mlp_only_train", True)
    model, tokenizer = scripts.open_encoder(
        encoder, scripts.every_text(texts), training.resume_from_checkpoint, pooling="cls", loss="info_nce", **settings
    )

    # rows: tokenized once, or read from disk while training
    if own.shuffle_buffer:
        if data.train_file is None or not single or data.max_train_samples or rows.held_out:
            raise InputError("--shuffle_buffer reads one column of a .parquet or .txt file, whole; leave it out")
        column = texts.column_names[0]
        tokens = SentenceCorpus(
            data.train_file, tokenizer, tokenizer.model_max_length, column, "", own.shuffle_buffer,
            prompt=scripts.prompts_before([column], model)[column],
        )  # fmt: skip
    else:
        tokens = scripts.tokenized(texts, model, tokenizer, training, data.preprocessing_num_workers)

    # training; the evaluation is STS-B dev, if CONTRASTIVE_ST_DATA has it
    trainer = ContrastiveTrainer(
        model=model, args=training, train_dataset=tokens, processing_class=tokenizer,
        data_collator=rows.dropout_collator(tokenizer, do_mlm=own.do_mlm, mlm_probability=own.mlm_probability),
        evaluator=sts_evaluator(tokenizer), **scripts.validation_parts(rows, model, tokenizer, training),
    )  # fmt: skip
    scripts.describe_data(trainer, data.train_file, data, encoder, own, licence=texts.info.license)
    return scripts.finish(trainer)


if __name__ == "__main__":
    sys.exit(run(main))
