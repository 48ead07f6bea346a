"""PromptBERT (Jiang et al. 2022, https://arxiv.org/abs/2201.04337): embed a sentence as the [MASK] of a template.

With the published settings for BERT-base, which are the defaults (the two templates, batch 256, rate 1e-5, one epoch,
T = 0.05):

    accelerate launch examples/run_promptbert.py --train_file wiki1m_for_simcse.txt \
        --model_name_or_path bert-base-uncased --max_length 40

The published code truncates sentences to 32 tokens; `--max_length` counts the template too. For RoBERTa the published
templates are `This sentence : ' [X] ' means [MASK].` and `The sentence : ' [X] ' means [MASK].`

With one template, the two views are dropout pairs, or the pairs and triplets of a file. Start from an encoder that was
pre-trained by masked language modelling, because only such an encoder has learned to fill in [MASK]. Without a file
and an encoder it trains a small BERT on the Python documentation of this machine, offline, to see that it runs:

    accelerate launch examples/run_promptbert.py --per_device_train_batch_size 32 --max_steps 50
"""

import sys
from dataclasses import dataclass, field

from contrastive_st import (
    ContrastiveTrainer,
    ContrastiveTrainingArguments,
    InputError,
    run,
    scripts,
)
from contrastive_st.data import TemplatePairCollator, read_template
from contrastive_st.evaluation import sts_evaluator
from contrastive_st.scripts.arguments import (
    DataArguments,
    EncoderArguments,
    MatryoshkaArguments,
    ScriptArguments,
    ValidationArguments,
    WordsLossArguments,
    loss_arguments,
)

LossArguments = loss_arguments(["info_nce", "consistent_info_nce"])
TEMPLATES = ['This sentence of "[X]" means [MASK].', 'This sentence : "[X]" means [MASK].']
DEFAULTS = {
    "output_dir": "out/promptbert",
    "templates": TEMPLATES,
    "per_device_train_batch_size": 256,
    "learning_rate": 1e-5,
    "num_train_epochs": 1,
    "logging_steps": 50,
}


@dataclass
class Arguments(ScriptArguments):
    """Options of this script alone."""

    templates: list[str] = field(
        default_factory=list,
        metadata={
            "help": "One or two templates, each with [X] where the text is, and then [MASK]; two make two views."
        },
    )


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
    if not 1 <= len(own.templates) <= 2 or encoder.pooling is not None:
        raise InputError("--templates takes one or two, and the embedding is at their [MASK]; leave out --pooling")

    # data: single texts; with one template also pairs, or triplets
    two = len(own.templates) == 2
    kinds = ("texts",) if two else ("texts", "pairs", "triplets")
    rows = (
        scripts.read_rows(data, validation, training, kinds, "each is put into two templates")
        if data.train_file
        else scripts.documentation_rows()
    )

    # model: InfoNCE over the states at [MASK], less those of the template alone; the tokenizer adds the first template
    settings = {
        **matryoshka.over(loss.settings("info_nce")),
        **words.settings,
        **scripts.no_prompts(encoder, "a template"),
    }
    model, tokenizer = scripts.open_encoder(
        encoder, scripts.every_text(rows.texts), training.resume_from_checkpoint, template=own.templates[0], **settings
    )
    tokens = scripts.tokenized(rows.texts, model, tokenizer, training, data.preprocessing_num_workers)
    if two:
        first, second = (read_template(text, tokenizer) for text in own.templates)
        collator = TemplatePairCollator(tokenizer, templates=(first, second), **words.masking)
    else:
        collator = rows.dropout_collator(tokenizer, **words.masking)

    # training; the evaluation is STS-B dev, if CONTRASTIVE_ST_DATA has it
    trainer = ContrastiveTrainer(
        model=model, args=training, train_dataset=tokens, processing_class=tokenizer, data_collator=collator,
        evaluator=sts_evaluator(tokenizer),
        **scripts.validation_parts(rows, model, tokenizer, training),
    )  # fmt: skip
    scripts.describe_data(trainer, data.train_file, data, encoder, loss, own, licence=rows.texts.info.license)
    return scripts.finish(trainer)


if __name__ == "__main__":
    sys.exit(run(main))
