"""Train one encoder on several data sets, each with its own loss; each batch comes from one of them.

    accelerate launch examples/run_mixture.py --mixture examples/data/mixture.yaml \
        --model_name_or_path sentence-transformers/all-MiniLM-L6-v2 --output_dir out/mixture

docs/batches.md describes the file. `contrastive-st train --mixture FILE` runs this script.
"""

import sys
from dataclasses import dataclass
from itertools import chain

import contrastive_st.data
from contrastive_st import (
    ContrastiveTrainer,
    ContrastiveTrainingArguments,
    InputError,
    Mixture,
    MixtureCollator,
    run,
    scripts,
)
from contrastive_st.evaluation import sts_evaluator
from contrastive_st.options import option
from contrastive_st.scripts.arguments import EncoderArguments, MatryoshkaArguments
from mixture_file import read_mixture

DEFAULTS = {
    "output_dir": "out/mixture",
    "per_device_train_batch_size": 64,
    "learning_rate": 2e-5,
    "warmup_steps": 0.1,
    "num_train_epochs": 1,
    "logging_steps": 50,
}


@dataclass
class Arguments:
    """Options of this script alone."""

    mixture: str | None = option(
        "A .yaml file with a list under the key datasets. Each data set has a name and a train_file. Optional: "
        "columns ({anchor: sentence1, ...}), loss (a name, or {name: info_nce, temperature: 0.05}), weight (share of "
        "the batches; by default proportional to the number of rows), score_range ([0, 5]), prompts ({query: ...}, "
        "instead of those of the encoder) and streaming (true: read while training)."
    )


def main(argv: list[str] | None = None) -> dict[str, float]:
    groups = (EncoderArguments, MatryoshkaArguments, Arguments, ContrastiveTrainingArguments)
    encoder, matryoshka, own, training = scripts.start(groups, DEFAULTS, argv)
    if own.mixture is None:
        raise InputError("give --mixture, a .yaml file that lists data sets")

    # data: each set has its own columns and loss
    with training.main_process_first(desc="read"):
        sets = read_mixture(own.mixture, training.seed)

    # model: one encoder, with the loss of each set
    tasks = {one.name: matryoshka.over(one.loss.settings()) for one in sets}
    for task in tasks.values():
        task.pop("truncate_dim", None)  # of the encoder, not of a loss
    truncate = {} if matryoshka.truncate_dim is None else {"truncate_dim": matryoshka.truncate_dim}
    model, tokenizer = scripts.open_encoder(
        encoder, chain(*(one.texts() for one in sets)), training.resume_from_checkpoint, loss="mixture", tasks=tasks,
        **truncate,
    )  # fmt: skip
    with training.main_process_first(desc="tokenize"):
        rows = {one.name: one.tokenized(tokenizer, model.settings) for one in sets}
    weights = {one.name: one.weight for one in sets if one.weight is not None}
    mixture = Mixture(rows, weights or None)
    if mixture.endless and training.max_steps <= 0:
        raise InputError("a streamed data set has no length and so no epochs; give --max_steps")

    # training; the evaluation is STS-B dev, if CONTRASTIVE_ST_DATA has it
    collators = {one.name: getattr(contrastive_st.data, one.roles.collator)(tokenizer) for one in sets}
    trainer = ContrastiveTrainer(
        model=model, args=training, train_dataset=mixture, processing_class=tokenizer,
        data_collator=MixtureCollator(collators), evaluator=sts_evaluator(tokenizer),
    )  # fmt: skip
    scripts.describe_data(trainer, [one.source for one in sets], encoder, matryoshka)
    return scripts.finish(trainer)


if __name__ == "__main__":
    sys.exit(run(main))
