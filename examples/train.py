"""Train a sentence encoder on your own file, with a loss that suits its columns.

Fine-tune any encoder on pairs, and stop when the validation pairs stop getting better:

    accelerate launch examples/train.py --train_file pairs.csv \
        --model_name_or_path sentence-transformers/all-MiniLM-L6-v2 --validation_split 0.05 \
        --early_stopping_patience 3 --output_dir out/pairs

| columns of text, and others             | what is trained                          | loss              |
|------------------------------------------|------------------------------------------|-------------------|
| one                                      | two random crops of each text            | info_nce          |
| two                                      | pairs                                    | info_nce          |
| three or more                            | pairs with hard negatives                | info_nce          |
| three or more and a teacher's scores     | the teacher's ranking of the candidates  | kl_distillation   |
| two and `score`                          | pairs with a score of their similarity   | cosine_similarity |
| two and `label`                          | pairs with a class                       | softmax           |
| one and `label`                          | texts with a class, paired by it         | cosine_similarity |

`contrastive-st train` runs this script. The saved encoder keeps the pooling, the layers after it, the prompts and the
maximum length of its base. The defaults suit fine-tuning; each `run_*.py` has the settings of a paper.
"""

import sys
from dataclasses import dataclass

from contrastive_st import ContrastiveTrainer, ContrastiveTrainingArguments, InputError, run, scripts
from contrastive_st.data import GuidedRows
from contrastive_st.data.roles import KINDS
from contrastive_st.evaluation import sts_evaluator
from contrastive_st.evaluation.embedding_store import EmbeddingStore
from contrastive_st.files.writing import own_cache
from contrastive_st.losses import suitable
from contrastive_st.losses.base import loss_class
from contrastive_st.models.protocol import as_encoder
from contrastive_st.options import option
from contrastive_st.scripts.arguments import (
    DataArguments,
    EncoderArguments,
    MatryoshkaArguments,
    ValidationArguments,
    loss_arguments,
)

LossArguments = loss_arguments(suitable())
DEFAULTS = {
    "output_dir": "out/train",
    "per_device_train_batch_size": 64,
    "learning_rate": 2e-5,
    "warmup_steps": 0.1,
    "num_train_epochs": 1,
    "logging_steps": 50,
}


@dataclass
class Arguments:
    """Options of this script alone."""

    guide: str | None = option(
        "Second encoder (folder or Hub name): candidates that it scores above the positive are masked as false "
        "negatives."
    )


def main(argv: list[str] | None = None) -> dict[str, float]:
    groups = (
        DataArguments, ValidationArguments, EncoderArguments, LossArguments, MatryoshkaArguments, Arguments,
        ContrastiveTrainingArguments,
    )  # fmt: skip
    data, validation, encoder, loss, matryoshka, own, training = scripts.start(groups, DEFAULTS, argv)

    # data: a column of text for each view, then the score or the label
    rows = scripts.read_rows(data, validation, training)

    # model: the loss is one that trains such rows
    settings = loss.settings("guided_info_nce" if own.guide else KINDS[rows.kind].loss)
    fitting = scripts.suiting(encoder, suitable(rows.kind))
    if settings["loss"] not in fitting:
        raise InputError(
            f"--train_file holds {KINDS[rows.kind].words}, which --loss {settings['loss']} does not train; choose "
            f"{', '.join(fitting)}"
        )
    if (settings["loss"] == "guided_info_nce") != (own.guide is not None):
        raise InputError("--guide and --loss guided_info_nce belong together: give both, or neither")
    settings = loss_class(settings["loss"]).settings_from(rows.texts) | settings
    model, tokenizer = scripts.open_encoder(
        encoder, scripts.every_text(rows.texts), training.resume_from_checkpoint, **matryoshka.over(settings)
    )
    tokens = scripts.tokenized(rows.texts, model, tokenizer, training, data.preprocessing_num_workers)
    validated = scripts.validation_parts(rows, model, tokenizer, training)
    if own.guide:
        sides = [side for side in (rows.texts, rows.held_out) if side is not None]
        every = [text for side in sides for text in scripts.every_text(side)]
        guide = EmbeddingStore(as_encoder(own.guide), every, own_cache("embeddings"))
        tokens = GuidedRows(tokens, rows.texts, guide)
        if rows.held_out is not None and rows.held_out_kind == rows.kind:  # others have no loss
            validated["eval_dataset"] = GuidedRows(validated["eval_dataset"], rows.held_out, guide)

    # training; the validation rows and, if CONTRASTIVE_ST_DATA has it, STS-B dev
    trainer = ContrastiveTrainer(
        model=model, args=training, train_dataset=tokens, data_collator=rows.collator(tokenizer),
        processing_class=tokenizer, evaluator=sts_evaluator(tokenizer), **validated,
    )  # fmt: skip
    scripts.describe_data(trainer, data.train_file, data, encoder, loss, own, licence=rows.texts.info.license)
    return scripts.finish(trainer)


if __name__ == "__main__":
    sys.exit(run(main))
