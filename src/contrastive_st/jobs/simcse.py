"""Train a SimCSE encoder on dropout pairs, pairs or triplets; the checkpoint opens in every loader."""

from __future__ import annotations

import itertools
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from datasets import Dataset
from transformers import PreTrainedConfig, set_seed

from contrastive_st.data import (
    DeletionCollator,
    DropoutPairCollator,
    GuidedRows,
    NLITripletCollator,
    PairCollator,
    SentenceCorpus,
    TemplatePairCollator,
    check_max_length,
    read_examples,
    read_template,
    tokenize,
    train_wordpiece,
    with_template,
)
from contrastive_st.distributed import is_first_process
from contrastive_st.errors import InputError
from contrastive_st.evaluation import sts_evaluator
from contrastive_st.evaluation.embedding_store import EmbeddingStore, default_cache
from contrastive_st.evaluation.report.plots import training_curve
from contrastive_st.jobs.docs_search import DocsSearch
from contrastive_st.jobs.job import (
    EncoderArguments,
    PromptArguments,
    check_data,
    direction,
    fit_batch,
    job_metadata,
    parse_job,
    prompt_settings,
    prompts_of,
    say_what_happens,
    small_bert,
    with_lora,
    with_matryoshka,
)
from contrastive_st.models import AutoModelForCL, BertForCL, SentenceEncoder
from contrastive_st.models.checkpoint import family, load_config, load_tokenizer
from contrastive_st.models.configuration import max_positions
from contrastive_st.models.protocol import as_encoder
from contrastive_st.training import ContrastiveTrainer, ContrastiveTrainingArguments, check_output_dir

logger = logging.getLogger(__name__)


@dataclass
class SimCSEArguments(EncoderArguments, PromptArguments):
    """Data and model of the job."""

    train_file: str | None = field(
        default=None,
        metadata={
            "help": ".txt, .csv, .tsv, .json(l), .parquet or a Hub data set; one column trains dropout pairs, two "
            "pairs, three or more add hard negatives."
        },
    )
    columns: list[str] | None = field(
        default=None,
        metadata={"help": "Columns to use, by name or position, or as name=role: anchor, positive, negative or text."},
    )
    strict: bool = field(
        default=False, metadata={"help": "Stop at a blank cell instead of dropping and counting its row."}
    )
    max_train_samples: int | None = field(default=None, metadata={"help": "Train on the first rows only."})
    shuffle_buffer: int = field(
        default=0,
        metadata={
            "help": "Read a .parquet or .txt file of one text column from disk while training, tokenized on the way "
            "and mixed by a buffer of this many sentences (10000, say). By default every row is tokenized first, once, "
            "and rows are drawn from the whole file."
        },
    )
    model_name_or_path: str | None = field(
        default=None, metadata={"help": "Encoder to start from; by default a small BERT from scratch."}
    )
    max_length: int = field(
        default=32, metadata={"help": "Longest text, in tokens, in training and for the saved tokenizer."}
    )
    pooling: str | None = field(
        default=None,
        metadata={
            "help": "cls (with projection head), cls_before_pooler, mean, max, avg_first_last, avg_top2, last; by "
            "default what the encoder to start from records, cls from scratch."
        },
    )
    temperature: float = field(default=0.05, metadata={"help": "Temperature; divides the cosines."})
    hard_negative_weight: float = field(
        default=0.0, metadata={"help": "Log of the weight on an anchor's own hard negatives."}
    )
    mlp_only_train: bool = field(
        default=False, metadata={"help": "Use the projection head during training only (unsupervised SimCSE)."}
    )
    symmetric: bool = field(default=False, metadata={"help": "Add the loss in which positives pick their anchors."})
    deletion_ratio: float | None = field(
        default=None,
        metadata={
            "help": "TSDAE in place of InfoNCE: delete this share of the tokens of each text (0.6 in the paper), "
            "and have a decoder write the whole text from the vector of the rest."
        },
    )
    templates: list[str] | None = field(
        default=None,
        metadata={
            "help": "PromptBERT: a template such as 'This sentence of \"[X]\" means [MASK].', whose [MASK] gives the "
            "embedding; or two, which make the two views of a text. max_length counts their tokens too."
        },
    )
    cutoff: str | None = field(
        default=None, metadata={"help": "Cut a part of each sentence in training: token, span or feature."}
    )
    cutoff_ratio: float = field(default=0.1, metadata={"help": "Share of the sentence that a cutoff removes."})
    js_weight: float = field(
        default=0.0, metadata={"help": "Weight of the Jensen-Shannon divergence of the two views in the loss."}
    )
    guide: str | None = field(
        default=None,
        metadata={
            "help": "Another encoder, folder or Hub name: candidates that it finds more alike to the anchor than the "
            "positive are masked, as false negatives."
        },
    )
    guide_margin: float = field(
        default=0.0, metadata={"help": "With --guide: also mask this far below the positive's similarity."}
    )
    guide_margin_strategy: str = field(
        default="absolute", metadata={"help": "absolute, or relative: the margin is a share of that similarity."}
    )
    do_mlm: bool = field(default=False, metadata={"help": "Add a masked-language-model loss."})
    mlm_weight: float = field(default=0.1, metadata={"help": "Weight of the masked-language-model loss."})
    mlm_probability: float = field(default=0.15, metadata={"help": "Share of tokens that loss predicts."})
    new_head: bool | None = field(
        default=None, metadata={"help": "Draw a new projection head; by default when starting from a plain encoder."}
    )
    dropout: float | None = field(
        default=None, metadata={"help": "Dropout of the encoder; by default its own, 0.1 from scratch."}
    )
    num_layers: int = field(default=2, metadata={"help": "Layers of an encoder from scratch."})
    hidden_size: int = field(default=256, metadata={"help": "Width of an encoder from scratch."})
    vocab_size: int = field(
        default=16_000, metadata={"help": "Vocabulary of an encoder from scratch, learned from the training text."}
    )
    preprocessing_num_workers: int | None = field(default=None, metadata={"help": "Processes that tokenize."})


#: Defaults that differ from those of transformers
DEFAULTS: dict[str, Any] = {
    "output_dir": "out", "per_device_train_batch_size": 64, "learning_rate": 3e-5, "num_train_epochs": 1,
    "logging_steps": 50, "metric_for_best_model": "stsb_spearman", "greater_is_better": True,
}  # fmt: skip
#: Defaults of the job on the documentation of the installed packages
DOCS_DEFAULTS: dict[str, Any] = {
    **DEFAULTS,
    "per_device_train_batch_size": 2048, "learning_rate": 1e-2, "max_steps": 100, "warmup_steps": 0.1,
    "logging_steps": 5, "eval_strategy": "steps", "eval_steps": 20, "save_strategy": "steps", "save_steps": 20,
    "save_total_limit": 1, "metric_for_best_model": "mrr@10", "max_length": 128, "symmetric": True,
    "model_name_or_path": "static-minilm",
}  # fmt: skip


def parse(
    argv: Sequence[str] | None = None, docs: bool = False
) -> tuple[SimCSEArguments, ContrastiveTrainingArguments]:
    """Command-line arguments to dataclasses."""
    args, training = parse_job(SimCSEArguments, argv, "Train a SimCSE encoder.", DOCS_DEFAULTS if docs else DEFAULTS)
    check_data(docs, args.train_file, "simcse")
    return args, training


def main(argv: Sequence[str] | None = None, docs: bool = False) -> dict[str, float]:
    """Run the whole job, on a file or on the installed documentation; returns the final figures."""
    args, training = parse(argv, docs)
    say_what_happens()
    resume = check_output_dir(training, args.overwrite_output_dir)
    set_seed(training.seed)
    search = DocsSearch.load() if docs else None
    texts = search.training_pairs() if search else read_training_texts(args)
    model, tokenizer = open_model(args, texts, resume)
    with training.main_process_first(desc="tokenize"):
        rows = training_rows(args, texts, tokenizer, prompts_of(args, texts, model.settings))
    if args.guide:
        rows = guided_rows(args.guide, rows, texts)
    if len(rows) < 2:
        raise InputError(f"{args.train_file} has one sentence, but a contrastive loss needs two; add sentences")
    fit_batch(training, len(rows))
    evaluate = search.evaluator(tokenizer) if search else sts_evaluator(tokenizer)
    if evaluate is None and training.load_best_model_at_end:
        raise InputError(
            "load_best_model_at_end needs STS-B dev; set CONTRASTIVE_ST_DATA to a folder with SentEval's files"
        )
    trainer = ContrastiveTrainer(
        model=model, args=training, train_dataset=rows, data_collator=collator(args, texts, tokenizer),
        processing_class=tokenizer, evaluator=evaluate,
    )  # fmt: skip
    trainer.metadata = job_metadata(args, len(rows), args.train_file, texts.info.license)
    before = trainer.evaluate() if evaluate else {}
    trainer.train(resume_from_checkpoint=resume)
    after = before
    if not trainer.sigterm.stopped:
        model.drop_heads()
        trainer.save_model()
        trainer.save_state()
        after = trainer.evaluate() if evaluate else {}
        if is_first_process():
            report(trainer, before, after, search, SentenceEncoder(model, tokenizer))
    return after


def read_training_texts(args: SimCSEArguments) -> Dataset:
    """The training texts, one column per view."""
    texts, roles = read_examples(str(args.train_file), args.columns, strict=args.strict)
    if args.deletion_ratio is None:  # its message is about contrastive losses
        logger.info(roles)
    if roles.gold:
        raise InputError(
            f"{args.train_file} holds {roles.words}; contrastive-st train sbert trains them, or name the texts alone "
            f"with --columns {' '.join(roles.texts)}"
        )
    return texts if args.max_train_samples is None else texts.select(range(min(args.max_train_samples, len(texts))))


def training_rows(
    args: SimCSEArguments, texts: Dataset, tokenizer: Any, prompts: dict[str, str]
) -> Dataset | SentenceCorpus:
    """Tokenized rows, each text with the prompt of its column; cached on disk, or read while training."""
    if not args.shuffle_buffer:
        return tokenize(texts, tokenizer, args.max_length, args.preprocessing_num_workers, prompts)
    limited = args.max_train_samples is not None or args.guide is not None
    if args.train_file is None or limited or len(texts.column_names) > 1:
        raise InputError(
            "--shuffle_buffer reads one column of a .parquet or .txt file, whole; leave it out for pairs, for the "
            "documentation, and with --max_train_samples or --guide"
        )
    column = texts.column_names[0]
    prompt = prompts.get(column, "")
    return SentenceCorpus(args.train_file, tokenizer, args.max_length, column, "", args.shuffle_buffer, prompt)


def guided_rows(guide: str, rows: Any, texts: Dataset) -> GuidedRows:
    """The rows with the guide's embeddings of their texts; each text is encoded once and kept on disk."""
    every = [text for name in texts.column_names for text in texts[name]]
    return GuidedRows(rows, texts, EmbeddingStore(as_encoder(guide), every, default_cache()))


def open_model(args: SimCSEArguments, texts: Dataset, resume: str | None = None) -> tuple[Any, Any]:
    """The encoder and its tokenizer: a given checkpoint, or a small BERT with a vocabulary learned from the texts."""
    names = ("pooling", "mlp_only_train", "do_mlm", "mlm_weight", "cutoff", "cutoff_ratio")
    settings = {**with_matryoshka(loss_settings(args), args), **{name: getattr(args, name) for name in names}}
    asked = prompt_settings(args)
    if args.templates or args.deletion_ratio is not None:  # these take single texts only
        if asked:
            raise InputError(
                "--templates and --deletion_ratio do not work with prompts; leave out --prompts and its flags"
            )
        asked |= {"prompts": {}, "include_prompt": True}
    if args.pooling is None and args.model_name_or_path is not None:
        del settings["pooling"]
    if args.model_name_or_path is None:
        settings["pooling"] = args.pooling or "cls"
        check_max_length(args.max_length, 512)
        words = (text for name in texts.column_names for batch in texts.iter(10_000) for text in batch[name])
        words = itertools.chain(words, *[asked.get("prompts", {}).values()] * 2)  # words that occur once are left out
        tokenizer = load_tokenizer(resume) if resume else train_wordpiece(words, args.vocab_size, args.max_length)
        tokenizer = templated(args, tokenizer, settings)
        model = BertForCL(with_dropout(small_bert(args, len(tokenizer)), args.dropout), **settings, **asked)
    else:
        config = with_dropout(load_config(args.model_name_or_path), args.dropout)
        settings |= {"new_head": args.new_head, **direction(args)}
        tokenizer = templated(args, load_tokenizer(args.model_name_or_path), settings)
        if not hasattr(family(config.model_type), "projection"):  # not a transformer: only the given settings
            if args.templates or args.deletion_ratio is not None:
                raise InputError(
                    f"{args.model_name_or_path} is not a transformer, which this loss needs; choose another model"
                )
            settings = {name: value for name, value in settings.items() if getattr(SimCSEArguments, name, ...) != value}
        model = AutoModelForCL.from_pretrained(args.model_name_or_path, config=config, **settings, **asked)
        check_max_length(args.max_length, max_positions(model.config))
        tokenizer.model_max_length = args.max_length
    return with_lora(model, args), tokenizer


def templated(args: SimCSEArguments, tokenizer: Any, settings: dict[str, Any]) -> Any:
    """The tokenizer with the first template, if any, around each text; the model's settings record it."""
    if not args.templates:
        return tokenizer
    if len(args.templates) > 2 or args.pooling is not None:
        raise InputError("--templates takes one or two, and the embedding is at their [MASK]; leave out --pooling")
    template = read_template(args.templates[0], tokenizer)
    settings |= {"pooling": "mask", "template": template.shape}
    return with_template(tokenizer, template, args.max_length)


def loss_settings(args: SimCSEArguments) -> dict[str, Any]:
    """The settings of the loss: InfoNCE, alone, with a consistency term or with a guide; or TSDAE."""
    if args.deletion_ratio is not None:
        others = ("templates", "cutoff", "js_weight", "guide", "do_mlm", "matryoshka_dims")
        if clash := [f"--{name}" for name in others if getattr(args, name)]:
            raise InputError(f"--deletion_ratio is another loss, for single texts; leave out {' '.join(clash)}")
        return {"loss": "tsdae", "with_head": True}
    names = ("temperature", "hard_negative_weight", "symmetric")
    settings = {"loss": "info_nce", **{name: getattr(args, name) for name in names}}
    if args.js_weight and args.guide:
        raise InputError("--js_weight and --guide are two losses; give one of them")
    if args.js_weight:
        settings |= {"loss": "consistent_info_nce", "js_weight": args.js_weight}
    if args.guide:
        own = {"margin": args.guide_margin, "margin_strategy": args.guide_margin_strategy}
        settings |= {"loss": "guided_info_nce", **own}
    return settings


def with_dropout(config: PreTrainedConfig, probability: float | None) -> PreTrainedConfig:
    """`config` with every dropout of the encoder set to `probability`; unchanged for None."""
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


def collator(args: SimCSEArguments, texts: Dataset, tokenizer: Any) -> PairCollator | DeletionCollator:
    """The collator: dropout pairs or two templates for one column, pairs for two, hard negatives from the third on."""
    if args.deletion_ratio is not None:
        return DeletionCollator(tokenizer, args.deletion_ratio)
    masking: dict[str, Any] = {"do_mlm": args.do_mlm, "mlm_probability": args.mlm_probability}
    if args.templates and len(args.templates) == 2:
        first, second = (read_template(text, tokenizer) for text in args.templates)
        return TemplatePairCollator(tokenizer, templates=(first, second), **masking)
    kind = (DropoutPairCollator, PairCollator, NLITripletCollator)[min(len(texts.column_names), 3) - 1]
    return kind(tokenizer, **masking)


def report(
    trainer: ContrastiveTrainer,
    before: dict[str, Any],
    after: dict[str, Any],
    docs: DocsSearch | None,
    encoder: SentenceEncoder,
) -> None:
    """Print the figures and write the training curve beside the checkpoint."""
    folder = Path(trainer.args.output_dir)  # type: ignore[arg-type]
    curve = training_curve(trainer.state.log_history, folder / "training_curve.png")
    if docs:
        print(docs.report(before, encoder))
    elif after:
        was, now = (100 * figures["eval_stsb_spearman"] for figures in (before, after))
        print(f"STS-B dev Spearman x100: {was:.2f} before, {now:.2f} after")
    results = json.dumps({"before": before, "after": after}, indent=2)
    (folder / "results.json").write_text(results + "\n", encoding="utf-8")
    print(f"checkpoint in {folder}/" + (f", training curve in {curve}" if curve else ""))
