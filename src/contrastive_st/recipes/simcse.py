"""Train a SimCSE encoder: dropout pairs, pairs or triplets, from text to a checkpoint that every loader opens."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from datasets import Dataset
from transformers import PreTrainedConfig, set_seed

from contrastive_st.data import (
    DropoutPairCollator,
    NLITripletCollator,
    PairCollator,
    SentenceCorpus,
    check_max_length,
    read_texts,
    tokenize,
    train_wordpiece,
)
from contrastive_st.errors import InputError
from contrastive_st.evaluation.plots import training_curve
from contrastive_st.evaluation.sts import find_stsb, read_stsb, sts_spearman
from contrastive_st.models import AutoModelForCL, BertForCL, SentenceEncoder
from contrastive_st.models.auto import load_config
from contrastive_st.models.encoder import load_tokenizer
from contrastive_st.models.settings import max_positions
from contrastive_st.recipes.docs_search import DocsSearch
from contrastive_st.recipes.job import check_output_dir, fit_batch, job_facts, say_what_happens
from contrastive_st.recipes.simcse_arguments import SimCSEArguments, parse
from contrastive_st.recipes.small_bert import small_bert
from contrastive_st.training import ContrastiveTrainer
from contrastive_st.training.processes import is_first_process

logger = logging.getLogger(__name__)


def main(argv: Sequence[str] | None = None) -> dict[str, float]:
    """Run the whole job; returns the final figures."""
    args, training = parse(argv)
    say_what_happens()
    resume = check_output_dir(training, args.overwrite_output_dir)
    set_seed(training.seed)
    docs = DocsSearch.load() if args.train_file is None else None
    texts = docs.training_texts() if docs else read_training_texts(args)
    model, tokenizer = open_model(args, texts, resume)
    with training.main_process_first(desc="tokenize"):
        rows = training_rows(args, texts, tokenizer)
    if len(rows) < 2:
        raise InputError(f"{args.train_file} holds one sentence, and a contrast needs two: there are no negatives")
    fit_batch(training, len(rows))
    evaluate = docs.evaluator(tokenizer) if docs else sts_evaluator(tokenizer)
    if evaluate is None and training.load_best_model_at_end:
        raise InputError(
            "load_best_model_at_end needs STS-B dev; set CONTRASTIVE_ST_DATA to a folder with SentEval's files"
        )
    trainer = ContrastiveTrainer(
        model=model, args=training, train_dataset=rows, data_collator=collator(args, texts, tokenizer),
        processing_class=tokenizer, evaluator=evaluate,
    )  # fmt: skip
    trainer.facts = job_facts(args, len(rows), args.train_file, texts.info.license)
    before = trainer.evaluate() if evaluate else {}
    trainer.train(resume_from_checkpoint=resume)
    after = before
    if not trainer.sigterm.stopped:
        model.drop_heads()
        trainer.save_model()
        trainer.save_state()
        after = trainer.evaluate() if evaluate else {}
        if is_first_process():
            report(trainer, before, after, docs, SentenceEncoder(model, tokenizer))
    return after


def read_training_texts(args: SimCSEArguments) -> Dataset:
    """The training texts, one column a view."""
    columns = [int(name) if name.isdigit() else name for name in args.columns] if args.columns else None
    texts = read_texts(str(args.train_file), columns, strict=args.strict)
    return texts if args.max_train_samples is None else texts.select(range(min(args.max_train_samples, len(texts))))


def training_rows(args: SimCSEArguments, texts: Dataset, tokenizer: Any) -> Dataset | SentenceCorpus:
    """Tokenized rows: all of them, kept on disk, or as they are read."""
    if not args.shuffle_buffer:
        return tokenize(texts, tokenizer, args.max_length, args.preprocessing_num_workers)
    if args.train_file is None or args.max_train_samples is not None or len(texts.column_names) > 1:
        raise InputError(
            "--shuffle_buffer reads one column of a .parquet or .txt file, whole; leave it out for pairs, for the "
            "documentation, and with --max_train_samples"
        )
    column = texts.column_names[0]
    return SentenceCorpus(args.train_file, tokenizer, args.max_length, column, None, args.shuffle_buffer)


def open_model(args: SimCSEArguments, texts: Dataset, resume: str | None = None) -> tuple[Any, Any]:
    """The encoder and its tokenizer: a given checkpoint, or a small BERT with a vocabulary learned from the texts."""
    names = (
        "pooling", "temperature", "hard_negative_weight", "mlp_only_train", "objective", "do_mlm", "mlm_weight",
        "cutoff", "cutoff_ratio", "js_weight",
    )  # fmt: skip
    settings = {name: getattr(args, name) for name in names}
    if args.model_name_or_path is None:
        check_max_length(args.max_length, 512)
        words = (text for name in texts.column_names for batch in texts.iter(10_000) for text in batch[name])
        tokenizer = load_tokenizer(resume) if resume else train_wordpiece(words, args.vocab_size, args.max_length)
        model = BertForCL(with_dropout(small_bert(args, len(tokenizer)), args.dropout), **settings)
    else:
        config = with_dropout(load_config(args.model_name_or_path), args.dropout)
        model = AutoModelForCL.from_pretrained(
            args.model_name_or_path, config=config, new_head=args.new_head, **settings
        )
        tokenizer = load_tokenizer(args.model_name_or_path)
        check_max_length(args.max_length, max_positions(model.config))
        tokenizer.model_max_length = args.max_length
    return model, tokenizer


def with_dropout(config: PreTrainedConfig, probability: float | None) -> PreTrainedConfig:
    """`config` with every dropout of the encoder set to `probability`, or as it is for None."""
    for name in (
        "hidden_dropout_prob",
        "attention_probs_dropout_prob",
        "dropout",
        "attention_dropout",
        "mlp_dropout",
        "embedding_dropout",
    ):
        if probability is not None and hasattr(config, name):
            setattr(config, name, probability)
    return config


def collator(args: SimCSEArguments, texts: Dataset, tokenizer: Any) -> PairCollator:
    """Dropout pairs from one column, pairs from two, hard negatives from the third on."""
    kind = (DropoutPairCollator, PairCollator, NLITripletCollator)[min(len(texts.column_names), 3) - 1]
    return kind(tokenizer, do_mlm=args.do_mlm, mlm_probability=args.mlm_probability)


def sts_evaluator(tokenizer: Any) -> Any:
    """STS-B dev Spearman where `CONTRASTIVE_ST_DATA` has it, else None."""
    path = find_stsb("dev")
    if path is None:
        return None
    pairs = read_stsb(path)
    return lambda model: {"stsb_spearman": sts_spearman(SentenceEncoder(model, tokenizer).encode, pairs)}


def report(
    trainer: ContrastiveTrainer, before: dict, after: dict, docs: DocsSearch | None, encoder: SentenceEncoder
) -> None:
    """Print the figures and write the training curve beside the checkpoint."""
    folder = Path(trainer.args.output_dir)  # type: ignore[arg-type]
    curve = training_curve(trainer.state.log_history, folder / "training_curve.png")
    if docs:
        print(docs.report(before, after, encoder))
    elif after:
        was, now = (100 * figures["eval_stsb_spearman"] for figures in (before, after))
        print(f"STS-B dev Spearman x100: {was:.2f} before, {now:.2f} after")
    results = json.dumps({"before": before, "after": after}, indent=2)
    (folder / "results.json").write_text(results + "\n", encoding="utf-8")
    print(f"checkpoint in {folder}/" + (f", training curve in {curve}" if curve else ""))
