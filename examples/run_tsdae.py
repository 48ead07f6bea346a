"""TSDAE (Wang et al. 2021, https://arxiv.org/abs/2104.06979): restore a sentence from the vector of a part of it.

With the published settings, which are the defaults (60% of the tokens deleted, first token, batch 8, constant rate
3e-5, no weight decay):

    accelerate launch examples/run_tsdae.py --train_file sentences.txt --model_name_or_path bert-base-uncased

The script makes one pass over the file; set the paper's number of steps with `--max_steps`. Without a file
it trains a small BERT on the Python documentation of this machine, offline:

    accelerate launch examples/run_tsdae.py --max_steps 100
"""

import sys
from dataclasses import dataclass

from contrastive_st import ContrastiveTrainer, ContrastiveTrainingArguments, run, scripts
from contrastive_st.data import DeletionCollator
from contrastive_st.evaluation import sts_evaluator
from contrastive_st.options import Share, option
from contrastive_st.scripts.arguments import DataArguments, EncoderArguments, ScriptArguments, ValidationArguments

DEFAULTS = {
    "output_dir": "out/tsdae",
    "per_device_train_batch_size": 8,
    "learning_rate": 3e-5,
    "lr_scheduler_type": "constant",
    "weight_decay": 0.0,
    "num_train_epochs": 1,
    "logging_steps": 50,
}


@dataclass
class Arguments(ScriptArguments):
    """Options of this script alone."""

    deletion_ratio: Share = option("Probability that a token is deleted.", default=0.6)


def main(argv: list[str] | None = None) -> dict[str, float]:
    groups = (DataArguments, ValidationArguments, EncoderArguments, Arguments, ContrastiveTrainingArguments)
    data, validation, encoder, own, training = scripts.start(groups, DEFAULTS, argv)

    # data: single texts, of which the collator deletes tokens
    kinds = ("texts",)
    rows = (
        scripts.read_rows(data, validation, training, kinds, "each is written again from some of its words")
        if data.train_file
        else scripts.documentation_rows(data, validation)
    )

    # model: its loss is a decoder that shares the encoder's layers, and is dropped after training
    model, tokenizer = scripts.open_encoder(
        encoder, scripts.every_text(rows.texts), training.resume_from_checkpoint, pooling="cls_before_pooler",
        loss="tsdae", **scripts.no_prompts(encoder, "TSDAE"),
    )  # fmt: skip
    tokens = scripts.tokenized(rows.texts, model, tokenizer, training, data.preprocessing_num_workers)

    # training; the evaluation is STS-B dev, if CONTRASTIVE_ST_DATA has it
    trainer = ContrastiveTrainer(
        model=model, args=training, train_dataset=tokens, processing_class=tokenizer,
        data_collator=DeletionCollator(tokenizer, own.deletion_ratio), evaluator=sts_evaluator(tokenizer),
        **scripts.validation_parts(rows, model, tokenizer, training),
    )  # fmt: skip
    scripts.describe_data(trainer, data.train_file, data, encoder, own, licence=rows.texts.info.license)
    return scripts.finish(trainer)


if __name__ == "__main__":
    sys.exit(run(main))
