"""CERT (Fang et al. 2020, https://arxiv.org/abs/2005.12766): contrast sentences with their back-translations.

With the published settings, which are the defaults (queue 6720, momentum 0.999, T = 0.07, SGD with momentum 0.9, rate
4e-5, weight decay 1e-5, cosine schedule, batch 32, 50 epochs); the paper truncates to 64 tokens. `--task` afterwards
fine-tunes encoder and classifier on labelled rows, from the encoder before and after:

    accelerate launch examples/run_cert.py --train_file pairs.csv --model_name_or_path bert-large-uncased \
        --max_length 64 --task TREC

Pairs are made of sentences by two translation models, and kept as `pairs.csv` in the output folder:

    accelerate launch examples/run_cert.py --train_file sentences.txt --model_name_or_path bert-large-uncased \
        --max_length 64 --translate_there Helsinki-NLP/opus-mt-en-de --translate_back Helsinki-NLP/opus-mt-de-en

Without a file it runs offline: first lines of docstrings are the sentences, their paragraphs the back-translations,
and the task `package` is to predict which of four packages a paragraph comes from. In minutes:

    accelerate launch examples/run_cert.py --hidden_size 128 --per_device_train_batch_size 128 --learning_rate 1e-3 \
        --optim adamw_torch --num_train_epochs 2 --momentum_queue 1024 --momentum 0.99 --task package
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from back_translation import Translator, back_translate, write_pairs
from contrastive_st import (
    ContrastiveTrainer,
    ContrastiveTrainingArguments,
    InputError,
    PairCollator,
    read_examples,
    read_texts,
    run,
    scripts,
)
from contrastive_st.data.docs_sets import texts_of
from contrastive_st.evaluation import sts_evaluator
from contrastive_st.evaluation.docs_search import DocsSearch, package_task
from contrastive_st.options import Count, CountOrZero, NotNegative, Positive, option
from contrastive_st.random_state import preserved_random_state
from contrastive_st.scripts.arguments import EncoderArguments, ScriptArguments, TextArguments
from few_labels import fine_tuned_accuracy, labelled_parts, new_classifier

DEFAULTS = {
    "output_dir": "out/cert",
    "per_device_train_batch_size": 32,
    "learning_rate": 4e-5,
    "optim": "sgd",
    "optim_args": "momentum=0.9",
    "weight_decay": 1e-5,
    "lr_scheduler_type": "cosine",
    "num_train_epochs": 50,
    "momentum_queue": 6720,
    "momentum": 0.999,
    "logging_steps": 50,
}


@dataclass
class CERTArguments(ScriptArguments):
    """The translation, the loss, and the labelled task."""

    translate_there: str | None = option(
        "Translation model (folder or Hub name), such as Helsinki-NLP/opus-mt-en-de, to make pairs of sentences."
    )
    translate_back: str | None = option("Translation model for the other direction.")
    temperature: Positive = option("Temperature of InfoNCE; divides the cosines.", default=0.07)
    task: str | None = option(
        "Task to fine-tune on afterwards: TREC, SST2, MRPC, SICKE, or package (which Python package a paragraph of "
        "documentation is from)."
    )
    eval_data: str | None = option("Folder of SentEval's files, or 'hub' to download them.")
    label_samples: Count = option("Number of labelled rows for the fine-tuning.", default=400)
    task_epochs: Positive = option("Epochs of the fine-tuning.", default=10)
    task_learning_rate: NotNegative = option("Learning rate of the fine-tuning.", default=5e-4)
    task_batch_size: Count = option("Batch size of the fine-tuning.", default=32)
    task_seeds: CountOrZero = option(
        "Number of seeds of the fine-tuning; each fine-tunes the encoder before CERT and the encoder after it.",
        default=3,
    )

    def conflicts(self) -> Iterator[str]:
        """Yield one translation model of two, and settings of a fine-tuning that there is not."""
        if bool(self.translate_there) != bool(self.translate_back):
            yield "give both --translate_there and --translate_back, or neither"
        if self.task is None:
            yield from self.unused("without --task", "eval_data", "label_samples", "task_epochs", "task_learning_rate",
                                   "task_batch_size", "task_seeds")  # fmt: skip


def read_views(data: TextArguments, own: CERTArguments, folder: Path):
    """Two columns of text: those of the file, or its sentences and their translations there and back."""
    if own.translate_there is None:
        pairs, roles = read_examples(data.train_file, data.columns, strict=data.strict)
        if len(roles.texts) != 2:
            raise InputError(f"{roles.source} holds {roles.words}; name two columns of text with --columns")
        return pairs.select_columns(roles.texts)
    texts = read_texts(data.train_file, data.columns, strict=data.strict)
    texts = texts.take(min(data.max_train_samples or len(texts), len(texts)))
    there, back = Translator(own.translate_there), Translator(own.translate_back)
    folder.mkdir(parents=True, exist_ok=True)
    write_pairs(back_translate(iter(texts[texts.column_names[0]]), there, back), folder / "pairs.csv")
    return read_texts(str(folder / "pairs.csv"))


def fine_tuning(training: ContrastiveTrainingArguments, own: CERTArguments, seed: int) -> ContrastiveTrainingArguments:
    """The arguments of a fine-tuning: those of CERT with other steps, without evaluations, checkpoints and pushes."""
    settings = {
        "output_dir": str(Path(training.output_dir, "task")), "momentum_queue": 0, "seed": seed, "data_seed": seed,
        "num_train_epochs": own.task_epochs, "max_steps": -1, "learning_rate": own.task_learning_rate,
        "per_device_train_batch_size": own.task_batch_size, "optim": "adamw_torch", "optim_args": None,
        "dataloader_drop_last": False, "eval_strategy": "no", "eval_on_start": False, "early_stopping_patience": None,
        "save_strategy": "no", "load_best_model_at_end": False, "resume_from_checkpoint": None, "push_to_hub": False,
    }  # fmt: skip
    return replace(training, **settings)


def main(argv: list[str] | None = None) -> dict[str, float]:
    groups = (TextArguments, EncoderArguments, CERTArguments, ContrastiveTrainingArguments)
    data, encoder, own, training = scripts.start(groups, DEFAULTS, argv)
    folder = Path(training.output_dir)

    # data: the labelled rows; and a sentence and its back-translation, which may take long
    docs = DocsSearch.load(4000) if data.train_file is None or own.task == "package" else None
    if own.task:
        task = (package_task(docs.heldout), "hub") if own.task == "package" else (own.task, own.eval_data)
        parts = labelled_parts(*task, own.label_samples)
        fine_tuning(training, own, seed=0)  # what cannot be fine-tuned is to be said before CERT
    with training.main_process_first(desc="pairs"):
        pairs = read_views(data, own, folder) if data.train_file else texts_of(docs.training)
    pairs = pairs.take(min(data.max_train_samples or len(pairs), len(pairs)))

    # model: InfoNCE over the projected first token
    model, tokenizer = scripts.open_encoder(
        encoder, scripts.every_text(pairs), training.resume_from_checkpoint, pooling="cls", loss="info_nce",
        temperature=own.temperature,
    )  # fmt: skip
    rows = scripts.tokenized(pairs, model, tokenizer, training, data.preprocessing_num_workers)

    # training: `momentum_queue` makes the trainer keep a moving average and a queue
    trainer = ContrastiveTrainer(
        model=model, args=training, train_dataset=rows, data_collator=PairCollator(tokenizer),
        processing_class=tokenizer, evaluator=(sts_evaluator if data.train_file else docs.evaluator)(tokenizer),
    )  # fmt: skip
    scripts.describe_data(trainer, data.train_file, data, encoder, own)
    if own.task:
        trainer.save_model(str(folder / "before"))
        with preserved_random_state(), training.main_process_first(desc="classifier"):
            new_classifier(folder / "before", parts)
    figures = scripts.finish(trainer)
    if not own.task or trainer.sigterm.stopped:
        return figures

    # fine-tuning with a new classifier, from the encoder before CERT and after it
    for stage, start in (("fine-tuned", folder / "before"), ("CERT, then fine-tuned", folder)):
        found = [
            fine_tuned_accuracy(start, tokenizer, parts, fine_tuning(training, own, seed))
            for seed in range(own.task_seeds)
        ]
        figures |= {f"{own.task} {stage}": float(np.mean(found)), f"{own.task} {stage}, sd": float(np.std(found))}
    if trainer.is_world_process_zero():
        scripts.done("\n".join(f"{name:40} {value:.3f}" for name, value in figures.items() if own.task in name))
        (folder / "task.json").write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    return figures


if __name__ == "__main__":
    sys.exit(run(main))
