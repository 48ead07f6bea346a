"""The methods that `compare.py` trains, each with its script, flags, data and published metrics; one budget for all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

LOSS_COLUMNS = [
    "MR", "SUBJ", "CR", "MPQA", "STS12", "STS13", "STS14", "STS15", "STS16", "supervised STS-B", "supervised SICK-R",
]  # fmt: skip
CONTEXT_COLUMNS = ["MR", "SUBJ", "CR", "MPQA"]
SYSTEM_COLUMNS = ["STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "MR", "CR", "SST2", "TREC", "MRPC"]
TASKS = "MR,SUBJ,CR,MPQA,STS12,STS13,STS14,STS15,STS16,STSB-supervised,SICKR-supervised,STSB,SST2,TREC,MRPC"
#: task, metric and aggregation of the columns that are not named after a task
FIGURE_OF: dict[str, tuple[str, str | None, str | None]] = {
    **{f"STS{year}": (f"STS{year}", "pearson", "mean") for year in range(12, 17)},
    "STS-B": ("STSB", "spearman", "all"),
    "supervised STS-B": ("STSB-supervised", "pearson", "all"),
    "supervised SICK-R": ("SICKR-supervised", "pearson", "all"),
}

_LOSSES = {
    "next": (68.18, 88.45, 74.76, 79.95, 49.49, 35.85, 49.80, 55.05, 55.22, 72.11, 81.32),
    "counts": (64.02, 84.42, 70.44, 76.16, 26.89, 8.63, 17.28, 28.64, 19.97, 64.61, 75.48),
    "tfidf": (66.93, 85.89, 72.56, 75.52, 48.85, 41.50, 50.57, 59.95, 51.09, 68.53, 78.77),
    "tfidf_bin": (67.88, 86.85, 75.76, 78.91, 53.95, 49.40, 59.37, 67.16, 60.62, 65.08, 80.49),
}
LOSSES = {name: dict(zip(LOSS_COLUMNS, row, strict=True)) for name, row in _LOSSES.items()}

_CONTEXTS = {
    1: (76.71, 91.74, 83.95, 88.61),
    2: (77.11, 91.72, 83.84, 88.50),
    3: (76.54, 92.18, 83.34, 88.45),
    4: (76.46, 92.16, 82.76, 87.83),
}
CONTEXTS = {size: dict(zip(CONTEXT_COLUMNS, row, strict=True)) for size, row in _CONTEXTS.items()}

_UNTRAINED = ("--max_steps", "1", "--learning_rate", "1e-12")  # one step, too small to change a score
TEXTS = 240_000  # texts that a method encodes in training at the scale `small`; a pair is two
CORPUS = ("novels.parquet", "wikipedia.parquet")
NLI, TRIPLETS = ("nli/pairs.tsv",), ("nli/triplets.csv",)


@dataclass(frozen=True)
class Method:
    """One row of a table: a method, its flags, and its published results.

    Attributes:
        name: name of its folder.
        label: name in the tables.
        flags: flags of its script, in addition to those of the scale.
        published: published results, by column.
        script: the training script; without files it trains on the installed documentation.
        batch: rows per step, at the scale `small`.
        texts: texts per row.
        files: flags of the script that take data, each with its files below the data folder.
        starts_from_encoder: whether it starts from `--encoder`, if that is given.
    """

    name: str
    label: str
    flags: tuple[str, ...] = ()
    published: dict[str, float] = field(default_factory=dict)
    script: str = "quickthoughts"
    batch: int = 400
    texts: float = 1.0
    files: dict[str, tuple[str, ...]] = field(default_factory=lambda: {"--train_file": CORPUS})
    starts_from_encoder: bool = False


LOSS_METHODS = (
    Method("untrained", "the GRU before training", ("--targets", "next", *_UNTRAINED)),
    Method("next", "next sentence", ("--targets", "next"), LOSSES["next"]),
    Method("counts", "co-occurrence counts", ("--targets", "counts"), LOSSES["counts"]),
    Method("tfidf", "TF-IDF", ("--targets", "tfidf"), LOSSES["tfidf"]),
    Method("tfidf_bin", "binarized TF-IDF", ("--targets", "tfidf_bin"), LOSSES["tfidf_bin"]),
    Method("block", "CURL block of 3", ("--targets", "window", "--context_size", "3", "--row_loss", "block")),
)
CONTEXT_METHODS = tuple(
    Method(f"window_{k}", f"context size {k}", ("--targets", "window", "--context_size", str(k)), CONTEXTS[k])
    for k in (1, 2, 3, 4)
)


def _simcse(
    name: str, label: str, flags: str, texts: int, batch: int, files: tuple[str, ...], script: str = "simcse"
) -> Method:
    return Method(
        name, label, ("--pooling", "mean", *flags.split()), script=script, batch=batch, texts=texts,
        files={"--train_file": files}, starts_from_encoder=True,
    )  # fmt: skip


def _sbert(name: str, loss: str, texts: int, files: tuple[str, ...]) -> Method:
    return Method(
        f"sbert_{name}", f"Sentence-BERT, {name}",
        ("--loss", loss, "--pooling", "mean", "--learning_rate", "2e-4"), script="sbert", batch=64,
        texts=texts, files={"--train_file": files}, starts_from_encoder=True,
    )  # fmt: skip


def _distilled(order: str, seconds: str) -> Method:
    return Method(
        f"distill_{order}", f"distilled from the teacher, corpus {order}", ("--order_seconds", seconds),
        script="distill", batch=128, files={"--train_file": CORPUS[1:]},
    )  # fmt: skip


def _universal(encoder: str, *flags: str) -> Method:
    return Method(
        f"use_{encoder}", f"Universal Sentence Encoder, {encoder}", ("--encoder", encoder, *flags), script="use",
        batch=256, texts=5 / 3, files={"--corpus_file": CORPUS[1:], "--nli_file": NLI},
    )  # fmt: skip


SYSTEMS = (
    _simcse("start", "the BERT that the next eight start from", " ".join(_UNTRAINED), 2, 64, CORPUS[1:]),
    _simcse("simcse", "SimCSE, unsupervised", "--learning_rate 3e-5", 2, 64, CORPUS[1:]),
    _simcse(
        "cutoff", "Cutoff, span, with consistency",
        "--learning_rate 3e-5 --cutoff span --cutoff_ratio 0.1 --js_weight 1", 2, 64, CORPUS[1:], "cutoff",
    ),
    _simcse("tsdae", "TSDAE", "--learning_rate 3e-5 --deletion_ratio 0.6", 1, 64, CORPUS[1:], "tsdae"),
    _simcse("simcse_nli", "SimCSE, supervised", "--learning_rate 5e-4", 3, 128, TRIPLETS),
    _sbert("classification", "softmax", 2, NLI),
    _sbert("regression", "cosine_similarity", 2, ("senteval/STS/STSBenchmark/sts-train.csv",)),
    _sbert("triplet", "triplet", 3, TRIPLETS),
    Method(
        "cert", "CERT, of entailed pairs", ("--columns", "0", "1", "--learning_rate", "1e-4"),
        script="cert", batch=128, texts=2, files={"--train_file": TRIPLETS}, starts_from_encoder=True,
    ),
    _distilled("shuffled", "0"),
    _distilled("ordered", "60"),
    Method(
        "infersent", "InferSent", ("--optim", "adamw_torch", "--learning_rate", "1e-3", "--eval_strategy", "no"),
        script="infersent", batch=64, texts=2, files={"--train_file": NLI},
    ),
    _universal("dan"),
    _universal("transformer", "--max_length", "32", "--bf16", "true"),
    Method(
        "skipthoughts", "Skip-Thoughts", script="skipthoughts",
    ),
)  # fmt: skip
EVERY = (*LOSS_METHODS, *CONTEXT_METHODS, *SYSTEMS)

_TINY = "--hidden_size 16 --per_device_train_batch_size 64 --max_steps 5 --vocab_size 2000 --learning_rate 2e-3"
_SMALL = {
    "quickthoughts": "--hidden_size 300 --embedding_size 200 --vocab_size 20000 --max_length 50 --learning_rate 2e-3 "
    "--readout max --idf_sentences 100000",
    "use": "--hidden_size 256",
    "skipthoughts": "--learning_rate 2e-3 --hidden_size 240 --embedding_size 100",  # at 600 a step takes 5 x
    "infersent": "--hidden_size 300 --embedding_size 200",
    "distill": "--hidden_size 256 --num_layers 3 --max_length 32 --max_train_samples 40000 "
    "--learning_rate 1e-3 --warmup_steps 0.1",
    "sbert": "--max_length 32",
    "cert": "--max_length 32 --momentum_queue 1024 --momentum 0.99 --optim adamw_torch --lr_scheduler_type linear "
    "--weight_decay 0 --warmup_steps 0.1",
}
_FULL = {"quickthoughts": "--hidden_size 1000 --embedding_size 300 --per_device_train_batch_size 1000 "
         "--num_train_epochs 1 --learning_rate 5e-4"}  # fmt: skip
SCALES = ("tiny", "small", "full")
_COMMON = "--logging_steps 50 --save_strategy no --report_to none"


def flags_of(
    method: Method, scale: str, data: str | None, corpus: Sequence[str] = (), encoder: str | None = None,
    teacher: str | None = None,
) -> list[str]:  # fmt: skip
    """The flags of a method's script.

    Args:
        method: the method.
        scale: `tiny`, `small` (its steps encode `TEXTS` texts) or `full` (the scripts' own epochs).
        data: folder of the files; the scripts replace missing files by the documentation of the installed packages.
        corpus: files to use in place of the novels and Wikipedia.
        encoder: checkpoint or name that the BERT methods start from.
        teacher: checkpoint or name that the distilled methods learn from.

    Example:
        >>> flags_of(LOSS_METHODS[1], "small", None)[-4:]
        ['--max_steps', '600', '--targets', 'next']
    """
    flags = _COMMON.split()
    if scale == "tiny":
        flags += _TINY.split()
    elif scale == "small":
        steps = round(TEXTS / (method.batch * method.texts))
        flags += _SMALL.get(method.script, "").split()
        flags += ["--per_device_train_batch_size", str(method.batch), "--max_steps", str(steps)]
    else:
        flags += _FULL.get(method.script, "").split()
    for flag, names in method.files.items():
        own = corpus and set(names) <= set(CORPUS)
        given = list(corpus[: len(names)]) if own else _found(names, data)
        if given:
            flags += [flag, *given]
    if encoder and method.starts_from_encoder:
        flags += ["--model_name_or_path", encoder]
    if teacher and method.script == "distill":
        flags += ["--teacher", teacher]
    return [*flags, *method.flags]


def _found(names: Sequence[str], data: str | None) -> list[str]:
    return [str(Path(data, name)) for name in names if Path(data, name).is_file()] if data else []
