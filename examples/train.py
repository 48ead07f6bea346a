"""Train a sentence encoder on your own file. Its columns say what is trained, and with which loss.

Fine-tune any encoder on pairs, and stop when the validation pairs stop getting better:

    accelerate launch examples/train.py --train_file pairs.csv \
        --model_name_or_path sentence-transformers/all-MiniLM-L6-v2 --validation_split 0.05 \
        --early_stopping_patience 3 --output_dir out/pairs

| columns of text, and others             | what is trained                          | loss              |
|------------------------------------------|------------------------------------------|-------------------|
| one                                      | each text is its own positive, by dropout | info_nce          |
| two                                      | pairs                                    | info_nce          |
| three or more                            | pairs with hard negatives                | info_nce          |
| two and `score`                          | pairs with a score of their similarity   | cosine_similarity |
| two and `label`                          | pairs with a class                       | softmax           |
| one and `label`                          | texts with a class, paired by it         | cosine_similarity |

`contrastive-st train` runs this script. It saves what it opened: pooling, layers after it, prompts and longest text of
the encoder stay as they are. The settings are usual ones for fine-tuning; each `run_*.py` has those of a paper.
"""

import sys
from dataclasses import dataclass, field

import contrastive_st.data
from contrastive_st import ContrastiveTrainer, ContrastiveTrainingArguments, InputError, read_examples, run
from contrastive_st.data import GuidedRows, pairs_of_labels
from contrastive_st.evaluation import sts_evaluator
from contrastive_st.evaluation.embedding_store import EmbeddingStore, default_cache
from contrastive_st.losses import suitable
from contrastive_st.models.protocol import as_encoder
from contrastive_st.training import script
from contrastive_st.training.arguments import DataArguments, EncoderArguments, MatryoshkaArguments, loss_arguments

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

    guide: str | None = field(
        default=None,
        metadata={
            "help": "Another encoder, folder or Hub name: candidates that it finds more alike to the anchor than the "
            "positive are masked, as false negatives."
        },
    )


def main(argv: list[str] | None = None) -> dict[str, float]:
    groups = (DataArguments, EncoderArguments, LossArguments, MatryoshkaArguments, Arguments)
    data, encoder, loss, matryoshka, own, training = script.start(
        (*groups, ContrastiveTrainingArguments), DEFAULTS, argv
    )
    if data.train_file is None:
        raise InputError("give --train_file, a file or a data set of the Hub")

    # data: a column of text per view, then the score or the label
    texts, roles = read_examples(
        data.train_file, data.columns, strict=data.strict, scale=data.score_scale and tuple(data.score_scale)
    )
    print(roles)
    texts = texts.take(min(data.max_train_samples or len(texts), len(texts)))
    if roles.kind == "labelled_texts":
        texts = pairs_of_labels(texts, training.seed)

    # model: the loss is one that trains such rows
    settings = loss.settings("guided_info_nce" if own.guide else roles.loss)
    if settings["loss"] not in suitable(roles.kind):
        raise InputError(
            f"{data.train_file} holds {roles.words}, which --loss {settings['loss']} does not train; choose "
            f"{', '.join(suitable(roles.kind))}"
        )
    if settings["loss"] == "softmax":
        settings["num_labels"] = max(texts["label"]) + 1
    model, tokenizer = script.open_encoder(
        encoder, script.every_text(texts), training.resume_from_checkpoint, **matryoshka.over(settings)
    )
    rows = script.tokenized(texts, model, tokenizer, training, data.preprocessing_num_workers)
    if own.guide:
        every = [text for name in roles.texts for text in texts[name]]
        rows = GuidedRows(rows, texts, EmbeddingStore(as_encoder(own.guide), every, default_cache()))

    # training; without validation rows the evaluation is STS-B dev, if CONTRASTIVE_ST_DATA has it
    trainer = ContrastiveTrainer(
        model=model, args=training, train_dataset=rows, processing_class=tokenizer,
        data_collator=getattr(contrastive_st.data, roles.collator)(tokenizer), evaluator=sts_evaluator(tokenizer),
    )  # fmt: skip
    script.describe_data(trainer, data.train_file, data, encoder, loss, own, licence=texts.info.license)
    return script.finish(trainer)


if __name__ == "__main__":
    sys.exit(run(main))
