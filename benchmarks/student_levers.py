"""What the loss, the texts and the teacher's layers give a student: one change per row, on four STS sets.

    python benchmarks/student_levers.py DATA TEACHER --seeds 0 1 2 --cache FOLDER --output docs/student_levers.csv
    python benchmarks/student_levers.py --table docs/student_levers.csv      # print the file's table, train nothing

Each student starts as `contrastive-st distill` starts it (`layers=5`: the word embeddings and last layer of the
teacher; `static`: the closed form) and sees 48,000 texts of 16,000 distinct ones, those of `static_fits.py`, 128 a
step, AdamW with linear decay. The similarity distribution is the loss of ConGen (Limkonchotiwat et al. 2022): the
student's cosines to a queue of teacher vectors, as a softmax at 0.05, are to have the teacher's; the queue holds 4,096
texts drawn at random. Spearman x100, mean and standard deviation over the seeds.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import sys
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import spearmanr
from torch import Tensor
from torch.nn import functional
from transformers import AutoTokenizer

from contrastive_st.losses import EmbeddingDistillationLoss
from contrastive_st.models.static_encoder import count_rows, silent_ids, static_tokenizer, token_rows
from contrastive_st.models.students import student_of
from contrastive_st.scripts.distill import endless_batches
from contrastive_st.tokens import pad_rows
from contrastive_st.vectors import unit_vectors
from static_fits import TEXTS, fitted, layers_of, texts_of
from static_levers import COLUMNS, SETS, figures, read_sets, same

BATCH, SEEN, QUEUE, TEMPERATURE = 128, 48_000, 4096, 0.05
Rows = Sequence[Sequence[int]]


class Lever(NamedTuple):
    """Weights of the two losses, the number of distinct texts, and how many last layers of the teacher are averaged."""

    distance: float = 1.0
    distribution: float = 0.0
    texts: int = TEXTS
    layers: int = 1


LEVERS = {
    "before training": Lever(texts=0),
    "distance to the teacher": Lever(),
    "similarity distribution": Lever(0.0, 1.0),
    "both": Lever(1.0, 1.0),
    "both, the distribution a tenth": Lever(1.0, 0.1),
    "distance, half of the texts, each read twice as often": Lever(texts=TEXTS // 2),
    "distance, the mean of the last two layers": Lever(layers=2),
}


def loss_of(student: Tensor, teacher: Tensor, queue: Tensor, lever: Lever) -> Tensor:
    """The loss of a step; student and teacher `[B, d]`, the queue `[Q, d]` of unit vectors."""
    loss = lever.distance * EmbeddingDistillationLoss()(student[:, None], teacher)
    if lever.distribution:
        ours, theirs = (functional.normalize(x) @ queue.T / TEMPERATURE for x in (student, teacher))
        wanted = theirs.log_softmax(1)
        loss = loss + lever.distribution * functional.kl_div(
            ours.log_softmax(1), wanted, reduction="batchmean", log_target=True
        )
    return loss


def train(
    embed: Callable[[Rows], Tensor], weights: Iterable[Tensor], rows: Rows, targets: NDArray[np.float32], lever: Lever,
    seed: int, rate: float,
) -> None:  # fmt: skip
    """Train the weights; `embed` makes vectors `[B, d]` of rows of token ids."""
    optimizer = torch.optim.AdamW(weights, lr=rate, weight_decay=0.0, betas=(0.9, 0.99))
    steps, teacher = SEEN // BATCH, torch.from_numpy(targets)
    drawn = torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed))[:QUEUE]
    queue = functional.normalize(teacher[drawn])
    batches = endless_batches([len(row) for row in rows], BATCH, seed, by_length=True)
    for step, batch in enumerate(islice(batches, steps)):
        for group in optimizer.param_groups:
            group["lr"] = rate * min(1.0, (step + 1) / 50) * (1 - step / steps)
        loss_of(embed([rows[i] for i in batch]), teacher[batch], queue, lever).backward()
        optimizer.step()
        optimizer.zero_grad()


class Bench:
    """The texts, the teacher's vectors and the sets, from which a student of either kind is trained and evaluated."""

    def __init__(self, data: Path, teacher: str, cache: Path) -> None:
        cache.mkdir(parents=True, exist_ok=True)
        self.teacher, self.data = teacher, data
        self.tokenizer = static_tokenizer(AutoTokenizer.from_pretrained(teacher))
        names = [name.removeprefix("##") for name in self.tokenizer.convert_ids_to_tokens(range(len(self.tokenizer)))]
        self.texts = texts_of(data)
        self.vectors = layers_of(teacher, self.texts, cache / "texts.npy")
        self.tokens = layers_of(teacher, names, cache / "tokens.npy")

    def static(self, name: str, lever: Lever, seed: int) -> dict[str, str]:
        """The row of a static student of 256 dimensions."""
        rows = token_rows(self.tokenizer, self.texts)
        count, silent = lever.texts or TEXTS, silent_ids(self.tokenizer)
        table, targets = fitted(self.vectors, self.tokens, rows, (count, lever.layers, 256, 0.1, 1e-4))
        kept = [i for i, row in enumerate(rows[:count]) if row]
        weight = torch.nn.Parameter(torch.from_numpy(table))

        def embed(batch: Rows) -> Tensor:
            lengths = torch.tensor([0, *map(len, batch[:-1])]).cumsum(0)
            return functional.embedding_bag(torch.tensor([i for row in batch for i in row]), weight, lengths)

        if lever.texts:
            train(embed, [weight], [rows[i] for i in kept], targets[kept], lever, seed, rate=2e-3)
        table = weight.detach().numpy()
        table[silent] = 0
        sets = read_sets(self.data, lambda own: count_rows(token_rows(self.tokenizer, own), len(self.tokenizer)))
        return figures((name, table, same), sets)

    def layer(self, name: str, lever: Lever, seed: int) -> dict[str, str]:
        """The row of a student of one layer."""
        count = lever.texts or TEXTS
        encoder = student_of(self.teacher, [5])
        rows = encoder.tokenizer(self.texts[:count], truncation=True, max_length=128)["input_ids"]
        targets = unit_vectors(self.vectors[3 - lever.layers :, :count].mean(0))

        def embed(batch: Rows) -> Tensor:
            ids, mask = pad_rows(batch, encoder.tokenizer.pad_token_id)
            with torch.autocast("cpu", torch.bfloat16):
                found: Tensor = encoder.model.embed(ids, attention_mask=mask)
            return found.float()

        if lever.texts:
            train(embed, encoder.model.parameters(), rows, targets, lever, seed, rate=5e-4)
        encoder.model.eval()
        found: dict[str, Any] = {"change": name}
        for of, (first, second, gold) in read_sets(self.data, lambda own: own).items():
            a, b = (unit_vectors(encoder.encode(own)) for own in (first, second))
            found[of] = 100 * spearmanr((a * b).sum(1), gold).statistic
        found["mean"] = np.mean([found[of] for of in SETS])
        return {"change": name, **{column: f"{found[column]:.2f}" for column in COLUMNS}}


def table_of(path: Path) -> str:
    """The file as a table of a page: mean and standard deviation over the seeds."""
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    kinds = dict.fromkeys((row["student"], row["change"]) for row in rows)
    lines = [f"| student | change | {' | '.join(COLUMNS)} |", "|---|---|" + "--:|" * len(COLUMNS)]
    for kind in kinds:
        own = [row for row in rows if (row["student"], row["change"]) == kind]
        cells = []
        for column in COLUMNS:
            values = [float(row[column]) for row in own]
            spread = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
            cells.append(f"{statistics.mean(values):.1f}{spread}")
        lines.append(f"| {' | '.join((*kind, *cells))} |")
    return "\n".join(lines)


def main() -> None:
    """Train and evaluate each student that the file does not have yet, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="?", help="folder of the data sets")
    parser.add_argument("teacher", nargs="?")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--students", nargs="+", choices=("static", "layer"), default=["static", "layer"])
    parser.add_argument("--cache", type=Path, default=Path("static_fits"), help="folder of the teacher's vectors")
    parser.add_argument("--output", type=Path, default=Path("student_levers.csv"))
    parser.add_argument("--table", type=Path, help="print the table of this file, and train nothing")
    args = parser.parse_args()
    if not args.table:
        done = set()
        if args.output.exists():
            with open(args.output, newline="", encoding="utf-8") as file:
                done = {(row["student"], row["change"], row["seed"]) for row in csv.DictReader(file)}
        bench = Bench(args.data, args.teacher, args.cache)
        with open(args.output, "a", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, ("student", "change", "seed", *COLUMNS))
            if not done:
                writer.writeheader()
            for seed in args.seeds:
                for student in args.students:
                    for name, lever in LEVERS.items():
                        if (student, name, str(seed)) in done or (not lever.texts and seed != args.seeds[0]):
                            continue
                        torch.manual_seed(seed)
                        row = getattr(bench, student)(name, lever, seed)
                        writer.writerow({"student": student, "seed": seed, **row})
                        file.flush()
                        print(student, seed, row, file=sys.stderr)
    print(table_of(args.table or args.output))


if __name__ == "__main__":
    main()
