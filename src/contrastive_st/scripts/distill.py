"""`contrastive-st distill TEACHER --student static | layers=0,3,5`: a small encoder that copies a teacher's embeddings.

A static student is fitted in closed form and then refined; a layer student starts from some of the teacher's layers.
Both are trained by the distance to the teacher's embeddings and, with `--pairs`, by InfoNCE over pairs and triplets.
"""

from __future__ import annotations

import contextlib
import math
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from contrastive_st.data import TeacherRows, read_texts
from contrastive_st.data.reading import open_table
from contrastive_st.device import bf16_is_fast
from contrastive_st.errors import InputError
from contrastive_st.files.reading import JsonObject
from contrastive_st.files.redact import publishable, publishable_arguments
from contrastive_st.files.writing import only_writer, replace_model
from contrastive_st.hub.cards import write_card
from contrastive_st.losses import EmbeddingDistillationLoss, InfoNCE
from contrastive_st.models.auto import load_tokenizer
from contrastive_st.models.base import ForCL, text_hashes
from contrastive_st.models.encoder import SentenceEncoder
from contrastive_st.models.protocol import open_encoder
from contrastive_st.models.static_encoder import StaticEncoder, StaticFit, silent_ids, static_tokenizer, token_rows
from contrastive_st.models.students import student_of, teacher_vectors
from contrastive_st.options import Count, CountOrZero, NotNegative, Options, Positive
from contrastive_st.terminal import is_quiet, progress_is_shown, say
from contrastive_st.tokens import pad_rows, token_types
from contrastive_st.training.arguments import ContrastiveTrainingArguments
from contrastive_st.training.checkpoints import TrainingDiverged
from contrastive_st.training.gradcache import Batch
from contrastive_st.training.metadata import base_model, class_and_formula, hardware, versions, write_training_metadata
from contrastive_st.training.trainer import ContrastiveTrainer
from contrastive_st.vectors import unit_vectors

Rows = list[list[int]]
Pairs = list[Rows]  # token ids of pairs (two texts each), and then of triplets (three: the last is a hard negative)
_STEPS, _PASSES = 1600, 100  # of a static student, if nothing is said
_FIX = "nothing was saved; lower --learning_rate"


@dataclass
class Training(Options):
    """How a student is trained.

    Args:
        batch_size: texts per step.
        pair_batch_size: pairs or triplets per step, if there are any.
        learning_rate: peak rate of AdamW, after a warm-up of 50 steps and with linear decay to 0.
        steps: number of steps; 0 for one pass over the texts. None: 1,600, or 100 passes over the texts (the pairs, if
            those take longer) if that is fewer, since more of them teach nothing.
        pair_weight: weight of InfoNCE over the pairs; the distance to the teacher has 1.
        temperature: temperature of InfoNCE.
        seed: seed of the order of texts and pairs.
        minutes: time limit, 0 for none; the learning rate falls to 0 at its end.

    """

    batch_size: Count = 512
    pair_batch_size: Count = 512
    learning_rate: Positive = 1e-3
    steps: CountOrZero | None = None
    pair_weight: NotNegative = 0.1
    temperature: Positive = 0.05
    seed: CountOrZero = 0
    minutes: NotNegative = 0.0


STATIC = Training()
LAYERS = Training(batch_size=128, pair_batch_size=64, learning_rate=5e-4, steps=0, pair_weight=0.05)


def main(args: Any) -> JsonObject:
    """Run the whole job with a `contrastive_st.scripts.cli.Distill`; return the table that it prints."""
    with only_writer(args.output, args.overwrite, parents=True) as output:
        return _distill(args, output)


def _distill(args: Any, output: Path) -> JsonObject:
    static = args.student == "static"
    source, layers = (None, None) if static else layer_student(args.teacher, args.student)
    changes = {spec.name: value for spec in fields(Training) if (value := getattr(args, spec.name)) is not None}
    training = replace(STATIC if static else LAYERS, **changes)
    texts = training_texts(args.train_file, args.max_train_samples, training.seed)
    if len(texts) < 2:
        raise InputError(f"--train_file has only {len(texts)} distinct text; give two or more")
    teacher = SentenceEncoder(args.teacher, pooling=args.pooling, precision="auto")
    if not static:
        teacher.truncate_dim = None  # a layer student learns all dimensions of its layers
    cache = args.cache or output.parent / f"{output.name}.teacher"
    vectors = teacher_vectors(teacher.encode, texts, cache, str(teacher.fingerprint), progress=progress_is_shown())
    torch.manual_seed(training.seed)
    if source is None:
        encoder, targets = fitted_static(args, teacher, texts, vectors)
    else:
        targets, learns = vectors, {"loss": EmbeddingDistillationLoss.name, "similarity": "cosine"}  # directions alone
        encoder = student_of(source, layers, pooling=args.pooling, max_length=args.max_length, **learns)
        if encoder.dimension != vectors.shape[1]:
            raise InputError(f"{source} has {encoder.dimension} dimensions and the teacher {vectors.shape[1]}")
    read = reader_of(encoder)
    rows, pairs = read(texts), read_pairs_of(args.pairs, read)
    if isinstance(encoder.model, StaticEncoder):
        run = train_used_rows(encoder.model, rows, targets, pairs, training)
        encoder.model.embeddings.data[silent_ids(encoder.tokenizer)] = 0  # zero vectors, which the training has changed
    else:
        run = train(encoder.model, rows, targets, pairs, training, encoder.tokenizer)
    encoder.model.drop_heads()
    with replace_model(output) as new:
        save(encoder, new, args.storage)
        write_training_metadata(metadata_of(args, teacher, encoder.model, len(texts), training, run), new)
    write_card(output)
    table = compare(args.teacher, teacher, output, texts, vectors)
    if not is_quiet():
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
    texts = list(dict.fromkeys(text for file in files for row in read_texts(file) for text in row.values()))
    if most is None or most >= len(texts):
        return texts
    return [texts[i] for i in np.random.default_rng(seed).permutation(len(texts))[:most]]


def fitted_static(
    args: Any, teacher: SentenceEncoder, texts: Sequence[str], vectors: NDArray[np.floating]
) -> tuple[SentenceEncoder, NDArray[np.float32]]:
    """The closed form, and the targets of its refinement: the teacher's vectors, centred, in `dim` dimensions."""
    tokenizer = static_tokenizer(load_tokenizer(args.teacher))
    fit = StaticFit(len(tokenizer), vectors.shape[1])
    for start in range(0, len(texts), 8192):
        part = slice(start, start + 8192)
        fit.add(token_rows(tokenizer, texts[part]), vectors[part])
    counts = np.delete(fit.totals, silent_ids(tokenizer))
    if not counts.any():
        raise InputError("no text of --train_file has a token that the teacher's tokenizer knows; give other texts")
    projection = fit.projection(args.dim)
    model = fit.encoder(teacher.encode, tokenizer, projection, args.regularization, loss=EmbeddingDistillationLoss.name)
    targets = (np.asarray(vectors, np.float32) - np.asarray(fit.mean / fit.texts, np.float32)) @ projection
    return SentenceEncoder(model, tokenizer), targets


def reader_of(encoder: SentenceEncoder) -> Callable[[Sequence[str]], Rows]:
    """A function from texts to token ids, as the encoder tokenizes them."""
    if isinstance(encoder.model, StaticEncoder):
        return lambda texts: token_rows(encoder.tokenizer, texts)
    return lambda texts: encoder.tokenizer(list(texts), truncation=True)["input_ids"]


def read_pairs_of(file: str | None, read: Callable[[Sequence[str]], Rows]) -> Pairs:
    """Pairs and triplets of a file; a row with an empty third cell is a pair."""
    if file is None:
        return []
    rows: list[list[str]] = []
    source = open_table(file)
    for number, cells in source:
        texts = [cell for cell in cells.values() if isinstance(cell, str) and cell.strip()]
        if not 2 <= len(texts) <= 3:
            raise InputError(f"{source.where(number)}: {len(texts)} texts; a pair has 2 and a triplet 3")
        rows.append(texts)
    ids = iter(read([cell for row in rows for cell in row]))
    tokens = [[next(ids) for _ in row] for row in rows]
    return sorted(filter(all, tokens), key=len)


def by_count(pairs: Pairs) -> list[Pairs]:
    """The rows with two texts and those with three, without a group of one row: it has no negatives."""
    groups = ([row for row in pairs if len(row) == count] for count in (2, 3))
    return [rows for rows in groups if len(rows) > 1]


class StudentRows(TeacherRows):
    """Token ids of the texts with the teacher's vectors; a batch has texts of similar length if `by_length`."""

    def __init__(self, ids: Rows, embeddings: NDArray[np.floating], by_length: bool) -> None:
        super().__init__(ids, embeddings)
        self.by_length = by_length

    def sampler(self, batch_size: int, seed: int) -> Iterable[int]:  # type: ignore[override]
        """The order for training with batches of `batch_size`, without an end."""
        return chain.from_iterable(endless_batches([len(row) for row in self.ids], batch_size, seed, self.by_length))


@dataclass
class StudentCollator:
    """Makes the batch of a step: texts with the teacher's vectors, and the texts of the next pairs, if there are any.

    Args:
        pad: the id of the padding token.
        pairs: pairs and triplets.
        numbers: batches of their numbers; None for no pairs.
        tokenizer: gives the types of tokens; None for a table, which takes none.

    Example:
        ::

            [{"input_ids": [7, 8], "teacher": [0.6, 0.8]}]      input_ids  [[[7, 8]], [[5, 0]], [[6, 0]]]
            and the pair [[5], [6]]                         ->  targets    [[0.6, 0.8]], groups [(1, 2)]
    """

    pad: int
    pairs: Pairs
    numbers: Iterator[NDArray[np.int64]] | None = None
    tokenizer: PreTrainedTokenizerBase | None = None

    def __call__(self, rows: Sequence[Batch]) -> Batch:
        """Collate rows of token ids and teacher vectors into a batch."""
        groups = by_count([self.pairs[i] for i in next(self.numbers)]) if self.numbers is not None else []
        every = [row["input_ids"] for row in rows] + [text for group in groups for row in group for text in row]
        ids, mask = pad_rows(every, self.pad)
        teacher = torch.from_numpy(np.stack([np.asarray(row["teacher"], np.float32) for row in rows]))
        shapes = [(len(group), len(group[0])) for group in groups]
        types = None if self.tokenizer is None else token_types(self.tokenizer, mask)
        typed = {} if types is None else {"token_type_ids": types[:, None]}
        padded = {"input_ids": ids[:, None], "attention_mask": mask[:, None], **typed}
        return {**padded, "targets": teacher, "groups": shapes}


class StudentTrainer(ContrastiveTrainer):
    """A `ContrastiveTrainer` whose loss is the distance to the teacher, plus InfoNCE over the pairs of a step.

    Args:
        options: weight and temperature of InfoNCE.
        args, kwargs: as for `ContrastiveTrainer`.
    """

    def __init__(self, *args: Any, options: Training, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.options = options

    def compute_loss(
        self,
        model: nn.Module,
        inputs: Batch,
        return_outputs: bool = False,
        num_items_in_batch: object = None,
    ) -> Any:
        """The loss of a step; all texts are encoded together."""
        ids, mask = (inputs[name][:, 0] for name in ("input_ids", "attention_mask"))
        typed = {"token_type_ids": inputs["token_type_ids"][:, 0]} if "token_type_ids" in inputs else {}
        with self.accelerator.autocast():
            embeddings = self.accelerator.unwrap_model(model).embed(ids, attention_mask=mask, **typed)
        hashes = text_hashes(ids, mask)
        loss = step_loss(embeddings.float(), hashes, inputs["targets"], inputs["groups"], self.options)
        texts = slice(len(inputs["targets"]))
        self._remember(embeddings[texts, None].detach(), inputs["targets"], hashes[texts, None], None)
        return (loss, None) if return_outputs else loss


class Schedule(TrainerCallback):
    """The share of the steps, or of the minutes if that is more, that has passed; ends the run at 1.

    Args:
        options: the minutes; 0 for no limit.
        steps: number of steps.
    """

    def __init__(self, options: Training, steps: int) -> None:
        self.options, self.steps, self.started = options, steps, time.monotonic()

    def progress(self, step: int) -> float:
        """The share that has passed before this step, from 0."""
        spent = (time.monotonic() - self.started) / (60 * self.options.minutes) if self.options.minutes else 0.0
        return max(step / self.steps, spent)

    def factor(self, step: int) -> float:
        """The share of the peak rate: a warm-up of 50 steps and a linear decay to 0."""
        return min(1.0, (step + 1) / 50) * max(0.0, 1 - self.progress(step))

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: object
    ) -> None:
        """Stop when the time or the steps are used up."""
        control.should_training_stop = control.should_training_stop or self.progress(state.global_step) >= 1


def train(
    model: ForCL,
    rows: Rows,
    targets: NDArray[np.floating],
    pairs: Pairs,
    options: Training,
    tokenizer: PreTrainedTokenizerBase | None = None,
) -> JsonObject:
    """Train a student in place by `ContrastiveTrainer`; return its entries of the training metadata.

    A layer student needs its tokenizer, for the types of tokens.

    Raises:
        TrainingDiverged: the loss is NaN or infinite.
    """
    if len(rows) < options.batch_size:
        print(f"only {len(rows)} texts: the batch size is {len(rows)}, not {options.batch_size}", file=sys.stderr)
    batch_size = min(options.batch_size, len(rows))
    one_pass = max(len(rows) // batch_size, 1)
    max_length = max(one_pass, len(pairs) // options.pair_batch_size if options.pair_weight else 0)
    steps = min(_STEPS, _PASSES * max_length) if options.steps is None else options.steps or one_pass
    by_length, numbers = not isinstance(model, StaticEncoder), None
    if len(pairs) and options.pair_weight:
        lengths = [max(map(len, row)) for row in pairs]
        numbers = endless_batches(lengths, options.pair_batch_size, options.seed + 1, by_length)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=options.learning_rate, weight_decay=0.0, betas=(0.9, 0.99), fused=True
    )
    schedule = Schedule(options, steps)
    with tempfile.TemporaryDirectory() as folder:
        trainer = StudentTrainer(
            model=model, options=options, train_dataset=StudentRows(rows, targets, by_length),
            data_collator=StudentCollator(model.config.pad_token_id, pairs, numbers, tokenizer),
            optimizers=(optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, schedule.factor)), callbacks=[schedule],
            args=ContrastiveTrainingArguments(
                folder, max_steps=steps, per_device_train_batch_size=batch_size, learning_rate=options.learning_rate,
                seed=options.seed, max_grad_norm=0.0, bf16=by_length and bf16_is_fast(model.device),
                save_strategy="no", report_to="none", logging_steps=100, dataloader_pin_memory=False,
            ),
        )  # fmt: skip
        started = schedule.started = time.monotonic()
        try:
            trainer.train()
        except TrainingDiverged as error:
            raise TrainingDiverged(f"{str(error).partition(' (')[0]}; {_FIX}") from error
    model.eval()
    seconds, done = time.monotonic() - started, trainer.state.global_step
    return {
        "steps": done, "of_steps": done, "epochs": round(done * batch_size / len(rows), 4),
        "seconds": round(seconds, 2), "texts_encoded": done * batch_size,
        "texts_per_second": round(done * batch_size / seconds, 1),
    }  # fmt: skip


def train_used_rows(
    model: StaticEncoder, rows: Rows, targets: NDArray[np.floating], pairs: Pairs, options: Training
) -> JsonObject:
    """`train` for a table, of which only the rows of tokens that occur are computed with: the others have no gradient.

    The result is that of the whole table to the bit. 3,000 sentences have a third of the tokens of BERT, and a step of
    AdamW over all of them was most of the time.
    """
    used = np.unique(np.concatenate([np.asarray(ids, np.int64) for ids in chain(rows, *pairs)]))
    number = np.zeros(len(model.table()), np.int64)
    number[used] = np.arange(len(used))
    renumbered = lambda rows: [number[row].tolist() for row in rows]
    table = model.table()[used].detach()
    small = StaticEncoder.from_table(table, model.config.normalize, loss=EmbeddingDistillationLoss.name)
    run = train(small, renumbered(rows), targets, list(map(renumbered, pairs)), options)
    model.embeddings.data[used] = small.embeddings.data
    model.eval()
    return run


def step_loss(
    embeddings: Tensor, hashes: Tensor, targets: Tensor, groups: Sequence[tuple[int, int]], options: Training
) -> Tensor:
    """The loss of a step: the distance of texts to the teacher, plus InfoNCE over groups of pairs.

    Args:
        embeddings: `[M, d]`, those of the texts and then of the rows of each group.
        hashes: `[M]`, of their token ids.
        targets: `[N, d]`, the teacher's vectors of the texts.
        groups: rows and views of each group: (rows, 2) for pairs, (rows, 3) for triplets.
        options: weight and temperature of InfoNCE.
    """
    loss = EmbeddingDistillationLoss()(embeddings[: len(targets), None], targets)
    contrast, start, total = InfoNCE(options.temperature), len(targets), sum(rows for rows, _ in groups)
    for shape in groups:
        part = slice(start, start := start + shape[0] * shape[1])
        pair_loss = contrast(embeddings[part].unflatten(0, shape), text_hashes=hashes[part].unflatten(0, shape))
        loss = loss + options.pair_weight * shape[0] / total * pair_loss
    return loss


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
            part = part[: len(part) // size * size]  # what is left out differs in each epoch
            part = part[np.argsort(array[part], kind="stable")] if by_length else part
            batches = part.reshape(-1, size)
            yield from (batches[i] for i in rng.permutation(len(batches)))


def save(encoder: SentenceEncoder, folder: Path, storage: str) -> None:
    """Write model and tokenizer; layer students in float16 unless `storage` is float32.

    Raises:
        TrainingDiverged: a weight is NaN, infinite, or too large for `storage`.
    """
    kind = torch.float16 if storage == "float16" else torch.float32  # int8 has a scale
    if not all(bool(weight.detach().to(kind).isfinite().all()) for weight in encoder.model.parameters()):
        raise TrainingDiverged(f"the weights are NaN, or too large for {storage}; {_FIX}")
    encoder.model.save_dtype = getattr(torch, storage)
    encoder.model.saved_for_float32 = not isinstance(encoder.model, StaticEncoder)  # the config of a table has its type
    encoder.save_pretrained(folder)


def metadata_of(
    args: Any, teacher: SentenceEncoder, model: nn.Module, rows: int, training: Training, run: JsonObject
) -> JsonObject:
    """The training metadata of the run, for the model card."""
    loss = EmbeddingDistillationLoss()
    files = [*args.train_file, *([args.pairs] if args.pairs else [])]
    static = {"dim": args.dim, "regularization": args.regularization} if args.student == "static" else {}
    record: JsonObject = publishable({
        "method": "Distillation of embeddings",
        "loss": {"name": loss.name, "settings": loss.settings()},
        "model": {"class": type(model).__name__, "parameters": sum(p.numel() for p in model.parameters())},
        "base_model": base_model(SimpleNamespace(name_or_path=str(args.teacher), config=teacher.model.config)),
        "data": {"name": ", ".join(Path(file).name for file in files), "rows": rows},
        "hyper_parameters": {"student": args.student, "storage": args.storage, **static, **asdict(training)},
        "seed": training.seed,
        "versions": versions(),
        "hardware": hardware(),
        "run": run,
    })  # fmt: skip
    record["loss"] |= class_and_formula(loss)
    record["launch"] = {"argv": publishable_arguments(sys.argv), "processes": 1}
    return record


def compare(
    name: str, teacher: SentenceEncoder, folder: Path, texts: Sequence[str], vectors: NDArray[np.floating]
) -> dict[str, dict[str, float]]:
    """Size on disk, speed on the same texts, and how far the similarities agree with those of the teacher's vectors."""
    some = list(texts[:500])
    student = open_encoder(folder, precision="auto")
    table: dict[str, dict[str, float]] = {}
    for who, encoder, path in (("teacher", teacher, Path(name)), ("student", student, folder)):
        encoder.encode(some[:64])
        started = time.perf_counter()
        result = encoder.encode(some)
        table[who] = {"sentences/s": round(len(some) / (time.perf_counter() - started))}
        if path.is_dir() and not (path / "adapter_config.json").is_file():  # whose base lies elsewhere
            files = [*path.glob("*.safetensors"), *path.glob("[0-9]*_*/*.safetensors")]
            table[who]["MiB"] = round(sum(file.stat().st_size for file in files) / 2**20, 1)
    both = [unit_vectors(x) for x in (np.asarray(vectors[: len(some)], np.float32), result)]
    table["student"]["agreement"] = agreement(*(x @ x.T for x in both))
    return table


def agreement(teacher: NDArray[np.floating], student: NDArray[np.floating]) -> float:
    """Pearson's correlation of two matrices of similarities `[N, N]`, over the pairs of different texts.

    Example:
        >>> agreement(np.array([[1.0, 0.2, 0.9], [0.2, 1.0, 0.4], [0.9, 0.4, 1.0]]), np.eye(3))
        nan
    """
    pairs = np.triu_indices(len(teacher), 1)
    flat = [matrix[pairs].astype(np.float64) - matrix[pairs].mean() for matrix in (teacher, student)]
    lengths = [float(np.linalg.norm(item)) for item in flat]
    return round(float(flat[0] @ flat[1] / (lengths[0] * lengths[1])), 4) if min(lengths) > 1e-9 else math.nan


def print_table(table: dict[str, dict[str, float]]) -> None:
    """Teacher, student, and their ratios."""
    teacher, student = table["teacher"], table["student"]
    print(f"agreement      of the student's similarities with the teacher's (Pearson): {student['agreement']:.3f}")
    for name in student:
        if name in teacher:
            ratio = student[name] / max(teacher[name], 1e-9)
            print(f"{name:14} teacher {teacher[name]:>10,.1f}   student {student[name]:>10,.1f}   x {ratio:.2f}")
