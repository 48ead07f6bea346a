"""`contrastive-st distill TEACHER --student static | layers=0,3,5`: a small encoder that copies a teacher's embeddings.

A static student is fitted in closed form and then refined; a layer student starts from some of the teacher's layers.
Both are trained by the distance to the teacher's embeddings and, with `--pairs`, by InfoNCE over pairs and triplets.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import platform
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file
from torch import Tensor

from contrastive_st.data import read_texts
from contrastive_st.data.readers import open_rows
from contrastive_st.errors import InputError
from contrastive_st.files.redact import publishable, publishable_arguments
from contrastive_st.hub.cards import write_card
from contrastive_st.losses import EmbeddingDistillationLoss, InfoNCE
from contrastive_st.models.auto import load_tokenizer
from contrastive_st.models.encoder import SentenceEncoder
from contrastive_st.models.hardware import bf16_is_fast
from contrastive_st.models.modeling import text_hashes
from contrastive_st.models.protocol import open_encoder
from contrastive_st.models.saving import write_tensors
from contrastive_st.models.static_encoder import (
    StaticEncoder,
    StaticFit,
    silent_ids,
    static_tokenizer,
    token_rows,
)
from contrastive_st.models.students import student_of, teacher_vectors
from contrastive_st.terminal import note, progress_is_shown, say
from contrastive_st.tokens import pad_rows
from contrastive_st.training.arguments import Ranges, check_ranges
from contrastive_st.training.checkpoints import TrainingDiverged
from contrastive_st.training.metadata import base_model, hardware, versions, words_of, write_training_metadata

Rows = list[list[int]]
_RANGES: Ranges = (
    ("batch_size pair_batch_size", lambda value: value >= 1, "1 or more"),
    ("steps seed", lambda value: value >= 0, "0 or more"),
    ("pair_weight minutes", lambda value: 0 <= value < math.inf, "a number that is not negative"),
    ("learning_rate temperature", lambda value: 0 < value < math.inf, "a positive number"),
)
_MEND = "nothing was saved; lower --learning_rate"


@dataclass
class Training:
    """How a student is trained.

    Args:
        batch_size: texts per step.
        pair_batch_size: pairs or triplets per step, if there are any.
        learning_rate: peak rate of AdamW, after a warm-up of 50 steps and with linear decay to 0.
        steps: number of steps; 0 for one pass over the texts.
        pair_weight: weight of InfoNCE over the pairs; the distance to the teacher has 1.
        temperature: temperature of InfoNCE.
        seed: seed of the order of texts and pairs.
        minutes: time limit, 0 for none; the learning rate falls to 0 at its end.

    Raises:
        InputError: one of them is out of range.
    """

    batch_size: int
    pair_batch_size: int
    learning_rate: float
    steps: int
    pair_weight: float
    temperature: float
    seed: int
    minutes: float

    def __post_init__(self) -> None:
        check_ranges(self, _RANGES)


@dataclass
class Pairs:
    """Token ids of pairs (two texts each) and of triplets (three: the last is a hard negative)."""

    pairs: list[list[list[int]]] = field(default_factory=list)
    triplets: list[list[list[int]]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.pairs) + len(self.triplets)

    def lengths(self) -> list[int]:
        """Length of the longest text of each row, in tokens."""
        return [max(map(len, row)) for row in (*self.pairs, *self.triplets)]

    def batch(self, numbers: NDArray[np.int64]) -> list[list[list[list[int]]]]:
        """The given rows as two batches: those with two texts, and those with three."""
        cut = len(self.pairs)
        found = [[self.pairs[i] for i in numbers if i < cut], [self.triplets[i - cut] for i in numbers if i >= cut]]
        return [rows for rows in found if len(rows) > 1]


def main(args: argparse.Namespace) -> dict[str, Any]:
    """Run the whole job, with the flags of `contrastive-st distill`; return the table that it prints."""
    output = Path(args.output)
    if output.exists() and any(output.iterdir()) and not args.overwrite:
        raise InputError(f"{output} has files; choose another --output or give --overwrite")
    static = args.student == "static"
    source, layers = (None, None) if static else layer_student(args.teacher, args.student)
    if not static and args.storage == "int8":
        raise InputError("--storage int8 is for static students only; give float16 or float32 for a layer student")
    training = Training(**{spec.name: getattr(args, spec.name) for spec in fields(Training)})
    texts = training_texts(args.train_file, args.max_train_samples, training.seed)
    teacher = SentenceEncoder(args.teacher, pooling=args.pooling, precision="auto")
    cache = args.cache or output.parent / f"{output.name}.teacher"
    vectors = teacher_vectors(teacher.encode, texts, cache, str(teacher.fingerprint), progress=progress_is_shown())
    torch.manual_seed(training.seed)
    if source is None:
        encoder, targets = fitted_static(args, teacher, texts, vectors)
    else:
        options = {"pooling": args.pooling, "max_length": args.max_length, "loss": EmbeddingDistillationLoss.name}
        encoder, targets = student_of(source, layers, **options), vectors
        if encoder.dimension != vectors.shape[1]:
            raise InputError(f"{source} has {encoder.dimension} dimensions and the teacher {vectors.shape[1]}")
    read = reader_of(encoder)
    run = train(encoder.model, read(texts), targets, read_pairs_of(args.pairs, read), training)
    encoder.model.drop_heads()
    if isinstance(encoder.model, StaticEncoder):
        encoder.model.embeddings.data[silent_ids(encoder.tokenizer)] = 0  # zero vectors, which the training has changed
    save(encoder, output, args.storage)
    write_training_metadata(metadata_of(args, teacher, encoder.model, len(texts), training, run), output)
    write_card(output)
    table = compare(args.teacher, teacher, output, texts)
    print_table(table)
    say(f"the student and its card are in {output}; next: contrastive-st evaluate {output} -o {output}/evaluation")
    return table


def layer_student(teacher: str, student: str) -> tuple[str, list[int] | None]:
    """The start of a layer student: layers of the teacher for `layers=0,3,5`, or a whole folder to continue with.

    Example:
        >>> layer_student("teacher", "layers=0,3,5")
        ('teacher', [0, 3, 5])
    """
    name, _, numbers = student.partition("=")
    if name == "layers":
        with contextlib.suppress(ValueError):
            return teacher, [int(number) for number in numbers.split(",")]
    elif Path(student, "config.json").is_file():
        return student, None
    raise InputError(f"--student {student}: give static, layers=0,3,5, or the folder of a layer student")


def training_texts(files: Sequence[str], most: int | None, seed: int) -> list[str]:
    """The distinct texts of all files, in their order; `most` of them drawn at random."""
    found = [text for file in files for row in read_texts(file) for text in row.values()]
    texts = list(dict.fromkeys(found))
    if most is None or most >= len(texts):
        return texts
    return [texts[i] for i in np.random.default_rng(seed).permutation(len(texts))[:most]]


def fitted_static(
    args: argparse.Namespace, teacher: SentenceEncoder, texts: Sequence[str], vectors: NDArray[np.floating]
) -> tuple[SentenceEncoder, NDArray[np.float32]]:
    """The closed form, and the targets of its refinement: the teacher's vectors, centred, in `dim` dimensions."""
    tokenizer = static_tokenizer(load_tokenizer(args.teacher))
    fit = StaticFit(len(tokenizer), vectors.shape[1])
    for start in range(0, len(texts), 8192):
        part = slice(start, start + 8192)
        fit.add(token_rows(tokenizer, texts[part]), vectors[part])
    projection = fit.projection(args.dim)
    model = fit.encoder(teacher.encode, tokenizer, projection, args.regularization, loss=EmbeddingDistillationLoss.name)
    targets = (np.asarray(vectors, np.float32) - np.asarray(fit.mean / fit.texts, np.float32)) @ projection
    return SentenceEncoder(model, tokenizer), targets


def reader_of(encoder: SentenceEncoder) -> Any:
    """A function from texts to token ids, as the encoder tokenizes them."""
    if isinstance(encoder.model, StaticEncoder):
        return lambda texts: token_rows(encoder.tokenizer, texts)
    return lambda texts: encoder.tokenizer(list(texts), truncation=True)["input_ids"]


def read_pairs_of(file: str | None, read: Any) -> Pairs:
    """Pairs and triplets of a file; a row with an empty third cell is a pair."""
    if file is None:
        return Pairs()
    rows: list[list[str]] = []
    source = open_rows(file)
    for number, cells in source:
        texts = [cell for cell in cells.values() if isinstance(cell, str) and cell.strip()]
        if not 2 <= len(texts) <= 3:
            raise InputError(f"{source.where(number)}: {len(texts)} texts; a pair has 2 and a triplet 3")
        rows.append(texts)
    ids = iter(read([cell for row in rows for cell in row]))
    tokens = [[next(ids) for _ in row] for row in rows]
    tokens = [row for row in tokens if all(row)]
    return Pairs([row for row in tokens if len(row) == 2], [row for row in tokens if len(row) == 3])


def train(model: Any, rows: Rows, targets: NDArray[np.floating], pairs: Pairs, options: Training) -> dict[str, Any]:
    """Train a student in place; return its entries of the training metadata.

    Raises:
        TrainingDiverged: the loss is NaN or infinite.
    """
    if len(rows) < options.batch_size:
        print(f"only {len(rows)} texts: the batch size is {len(rows)}, not {options.batch_size}", file=sys.stderr)
    batch_size, rate = min(options.batch_size, len(rows)), options.learning_rate
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.0, betas=(0.9, 0.99), fused=True)
    steps = options.steps or len(rows) // batch_size
    by_length = not isinstance(model, StaticEncoder)
    batches = endless_batches([len(row) for row in rows], batch_size, options.seed, by_length)
    numbers = None
    if len(pairs) and options.pair_weight:
        numbers = endless_batches(pairs.lengths(), options.pair_batch_size, options.seed + 1, by_length)
    started, losses = time.monotonic(), []
    model.train()
    for step in range(steps):
        spent = (time.monotonic() - started) / (60 * options.minutes) if options.minutes else 0.0
        progress = max(step / steps, spent)
        if progress >= 1:
            break
        for settings in optimizer.param_groups:
            settings["lr"] = rate * min(1, (step + 1) / 50) * (1 - progress)
        batch = next(batches)
        groups = pairs.batch(next(numbers)) if numbers is not None else []
        loss, distance = step_loss(model, [rows[i] for i in batch], targets[batch], groups, options)
        losses.append(float(distance))
        if not math.isfinite(loss.item()):
            raise TrainingDiverged(f"the loss is {loss.item()} at step {step + 1}; {_MEND}")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if (step + 1) % 100 == 0 or step + 1 == steps:
            _say(step + 1, steps, losses[-100:], started, progress, batch_size)
    model.eval()
    seconds, texts = time.monotonic() - started, len(losses) * batch_size
    return {
        "steps": len(losses), "of_steps": len(losses), "epochs": round(texts / len(rows), 4),
        "seconds": round(seconds, 2), "texts_encoded": texts, "texts_per_second": round(texts / seconds, 1),
    }  # fmt: skip


def step_loss(
    model: Any, rows: Rows, targets: NDArray[np.floating], groups: Sequence[Sequence[Rows]], options: Training
) -> tuple[Tensor, Tensor]:
    """The loss of a step and its first part: distance of texts to targets `[N, d]`, plus InfoNCE over groups of pairs.

    All texts are encoded together, so that the gradient of the word vectors, as large as the vocabulary, is made once.
    """
    every, hashes = embed(model, [*rows, *(text for group in groups for row in group for text in row)])
    wanted = torch.from_numpy(np.asarray(targets, np.float32)).to(model.device)
    distance = loss = EmbeddingDistillationLoss()(every[: len(rows), None], wanted)
    contrast, start, total = InfoNCE(options.temperature), len(rows), sum(map(len, groups))
    for group in groups:
        shape = (len(group), len(group[0]))
        part = slice(start, start := start + shape[0] * shape[1])
        own = contrast(every[part].unflatten(0, shape), text_hashes=hashes[part].unflatten(0, shape))
        loss = loss + options.pair_weight * len(group) / total * own
    return loss, distance.detach()


def _say(step: int, steps: int, losses: list[float], started: float, progress: float, batch_size: int) -> None:
    seconds = time.monotonic() - started
    left = seconds * (1 - progress) / max(progress, 1e-9)
    rate = step * batch_size / seconds
    note(f"step {step}/{steps}: distance {np.mean(losses):.4f}, {rate:,.0f} texts/s, {left:,.0f} s left")


def embed(model: Any, rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Embeddings `[N, d]` of token ids, computed in bfloat16 if that is fast, and the hashes `[N]` of the ids."""
    ids, mask = (tensor.to(model.device) for tensor in pad_rows(rows, model.config.pad_token_id))
    half = not isinstance(model, StaticEncoder) and bf16_is_fast(model.device)
    with torch.autocast(model.device.type, torch.bfloat16, enabled=half):
        embeddings = model.embed(ids, attention_mask=mask)
    return embeddings.float(), text_hashes(ids, mask)


def endless_batches(lengths: Sequence[int], size: int, seed: int, by_length: bool) -> Iterator[NDArray[np.int64]]:
    """Endless batches of row numbers, epoch after epoch; with `by_length`, of rows of similar length, in random order.

    Example:
        >>> batches = endless_batches([3, 1, 2, 1], 2, seed=0, by_length=True)
        >>> sorted(map(sorted, [next(batches).tolist(), next(batches).tolist()]))
        [[0, 2], [1, 3]]
    """
    rng = np.random.default_rng(seed)
    size = min(size, len(lengths))
    array = np.asarray(lengths)
    while True:
        order = rng.permutation(len(lengths))
        stretch = size * 32 if by_length else len(order)
        for start in range(0, len(order) - size + 1, stretch):
            part = order[start : start + stretch]
            part = part[np.argsort(array[part], kind="stable")] if by_length else part
            batches = [part[i : i + size] for i in range(0, len(part) - size + 1, size)]
            yield from (batches[i] for i in rng.permutation(len(batches)))


def save(encoder: SentenceEncoder, folder: Path, storage: str) -> None:
    """Write model and tokenizer; layer students in float16 unless `storage` is float32.

    Raises:
        TrainingDiverged: a weight is NaN, infinite, or too large for `storage`.
    """
    kind = torch.float16 if storage == "float16" else torch.float32  # int8 has a scale
    if not all(bool(weight.detach().to(kind).isfinite().all()) for weight in encoder.model.parameters()):
        raise TrainingDiverged(f"the weights are NaN, or too large for {storage}; {_MEND}")
    folder.mkdir(parents=True, exist_ok=True)
    if isinstance(encoder.model, StaticEncoder):
        encoder.model.save_pretrained(folder, storage=storage)
    else:
        encoder.model.save_pretrained(folder)
        if storage == "float16":  # the config still says float32, so the weights are opened as float32
            weights = {name: tensor.half() for name, tensor in load_file(folder / "model.safetensors").items()}
            write_tensors(weights, folder / "model.safetensors")
    encoder.tokenizer.save_pretrained(folder)


def metadata_of(
    args: argparse.Namespace, teacher: SentenceEncoder, model: Any, rows: int, training: Training, run: dict[str, Any]
) -> dict[str, Any]:
    """The training metadata of the run, for the model card."""
    loss = EmbeddingDistillationLoss()
    files = [*args.train_file, *([args.pairs] if args.pairs else [])]
    static = {"dim": args.dim, "regularization": args.regularization} if args.student == "static" else {}
    record: dict[str, Any] = publishable({
        "method": "Distillation of embeddings",
        "loss": {"name": loss.name, "settings": loss.settings()},
        "model": {"class": type(model).__name__, "parameters": sum(p.numel() for p in model.parameters())},
        "base_model": base_model(SimpleNamespace(name_or_path=str(args.teacher), config=teacher.model.config)),
        "data": {"name": ", ".join(Path(file).name for file in files), "rows": rows},
        "hyper_parameters": {"student": args.student, "storage": args.storage, **static, **asdict(training)},
        "seed": training.seed,
        "versions": {"python": platform.python_version(), **versions()},
        "hardware": hardware(),
        "run": run,
    })  # fmt: skip
    record["loss"] |= words_of(loss)
    record["launch"] = {"argv": publishable_arguments(sys.argv), "processes": 1}
    return record


def compare(name: str, teacher: SentenceEncoder, folder: Path, texts: Sequence[str]) -> dict[str, dict[str, float]]:
    """Size on disk and speed of teacher and student on the same texts."""
    some = list(texts[:2000])
    student: Any = open_encoder(folder, precision="auto")
    table: dict[str, dict[str, float]] = {}
    for who, encoder, place in (("teacher", teacher, Path(name)), ("student", student, folder)):
        encoder.encode(some[:64])
        started = time.perf_counter()
        encoder.encode(some)
        table[who] = {"sentences/s": round(len(some) / (time.perf_counter() - started))}
        if place.is_dir():
            table[who]["MiB"] = round(sum(f.stat().st_size for f in place.glob("*.safetensors")) / 2**20, 1)
    return table


def print_table(table: dict[str, dict[str, float]]) -> None:
    """Teacher, student, and their ratios."""
    teacher, student = table["teacher"], table["student"]
    for name in student:
        if name in teacher:
            ratio = student[name] / max(teacher[name], 1e-9)
            print(f"{name:14} teacher {teacher[name]:>10,.1f}   student {student[name]:>10,.1f}   x {ratio:.2f}")
