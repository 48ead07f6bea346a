"""What improves the closed form of a static student, before any training: one change per row, on four STS sets.

    python benchmarks/static_fits.py DATA TEACHER --cache FOLDER --output docs/static_fits.csv
    python benchmarks/static_fits.py --table docs/static_fits.csv        # print the file's table, fit nothing

TEACHER is a folder or a name on the Hub, read by transformers in bfloat16. Three texts in four are of SNLI and
MultiNLI, one is of Wikipedia, less the sentences of evaluation sets. The teacher's vectors (means over the tokens of
its last three layers) are kept in the folder. The columns are those of `static_levers.py`.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AutoModel, AutoTokenizer

from contrastive_st.models.static_encoder import (
    StaticFit,
    count_rows,
    silent_ids,
    static_tokenizer,
    token_rows,
)
from contrastive_st.vectors import unit_vectors
from distillation_texts import Filter, evaluation_sentences, lines, sampled
from static_levers import COLUMNS, figures, read_sets, same, table_of

TEXTS = 16_000
FITS = {  # number of texts, layers from the last, dimensions, regularization, SIF constant of the prior
    "none": (TEXTS, 1, 256, 0.1, 1e-4),
    "half of the texts": (TEXTS // 2, 1, 256, 0.1, 1e-4),
    "the mean of the teacher's last two layers": (TEXTS, 2, 256, 0.1, 1e-4),
    "the mean of its last three layers": (TEXTS, 3, 256, 0.1, 1e-4),
    "384 dimensions": (TEXTS, 1, 384, 0.1, 1e-4),
    "regularization 1": (TEXTS, 1, 256, 1.0, 1e-4),
    "initial token weights: SIF with 1e-3": (TEXTS, 1, 256, 0.1, 1e-3),
    "initial token weights: all equal": (TEXTS, 1, 256, 0.1, np.inf),
}


def texts_of(data: Path) -> list[str]:
    """Three thousand texts of NLI, a thousand of Wikipedia, and again, until there are enough."""
    keep = Filter(evaluation_sentences(data))
    pairs = [line.split("\t") for line in lines(data / "nli/pairs.tsv")[1:]]
    with open(data / "nli/triplets.csv", encoding="utf-8", newline="") as file:
        triplets = list(csv.reader(file))[1:]
    nli = [text for row in (*(pair[:2] for pair in pairs), *triplets) for text in row if keep(text, "nli")]
    wikipedia = sampled(data / "wikipedia.parquet", 100_000, keep, np.random.default_rng(15))
    nli = [nli[i] for i in np.random.default_rng(36).permutation(len(nli))]
    blocks = (nli[3 * i : 3 * i + 3000] + wikipedia[i : i + 1000] for i in range(0, TEXTS // 4, 1000))
    return [text for block in blocks for text in block]


def layers_of(teacher: str, texts: Sequence[str], path: Path) -> NDArray[np.float32]:
    """The means over the tokens of the last three layers, `[3, n, D]`, the last one last; read from `path` if there."""
    if not path.exists():
        tokenizer, model = AutoTokenizer.from_pretrained(teacher), AutoModel.from_pretrained(teacher).bfloat16().eval()
        found = np.zeros((3, len(texts), model.config.hidden_size), np.float16)
        order = np.argsort([len(text) for text in texts])
        with torch.inference_mode():
            for start in range(0, len(texts), 64):
                own = order[start : start + 64]
                batch = tokenizer(
                    [texts[i] for i in own], padding=True, truncation=True, max_length=128, return_tensors="pt"
                )
                states = model(**batch, output_hidden_states=True).hidden_states[-3:]
                mask = batch["attention_mask"][..., None].float()
                found[:, own] = torch.stack([(state.float() * mask).sum(1) / mask.sum(1) for state in states]).numpy()
        np.save(path, found)
    return np.load(path).astype(np.float32)


def fitted(
    texts: NDArray[np.float32], tokens: NDArray[np.float32], rows: Sequence[Sequence[int]], lever: Sequence[float]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The table of a fit to the layers `[3, n, D]` of texts and `[3, V, D]` of tokens, as `fit_static` makes it.

    Also the vectors of the texts that it was fitted to, centred and projected.
    """
    count, layers, dim, regularization, sif = lever
    count, last = int(count), slice(3 - int(layers), 3)
    fit = StaticFit(tokens.shape[1], tokens.shape[2])
    wanted = unit_vectors(texts[last, :count].mean(0))
    fit.add(rows[:count], wanted)
    projection = fit.projection(int(dim))
    shares = 1 / np.arange(1, tokens.shape[1] + 1)
    weights = 1 / (1 + shares / shares.sum() / sif)
    vectors = unit_vectors(tokens[last].mean(0))
    prior = np.asarray((vectors - vectors.mean(0)) * weights[:, None], np.float32)
    targets = (wanted - np.asarray(fit.mean / fit.texts, np.float32)) @ projection
    return fit.solve(prior @ projection, projection, regularization), targets


def main() -> None:
    """Fit, write the file and print its table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="?", help="folder of the data sets")
    parser.add_argument("teacher", nargs="?")
    parser.add_argument("--cache", type=Path, default=Path("static_fits"), help="folder of the teacher's vectors")
    parser.add_argument("--output", type=Path, default=Path("static_fits.csv"))
    parser.add_argument("--table", type=Path, help="print the table of this file, and fit nothing")
    args = parser.parse_args()
    if not args.table:
        args.cache.mkdir(parents=True, exist_ok=True)
        tokenizer = static_tokenizer(AutoTokenizer.from_pretrained(args.teacher))
        names = [name.removeprefix("##") for name in tokenizer.convert_ids_to_tokens(range(len(tokenizer)))]
        texts = texts_of(args.data)
        vectors = layers_of(args.teacher, texts, args.cache / "texts.npy")
        tokens = layers_of(args.teacher, names, args.cache / "tokens.npy")
        rows = token_rows(tokenizer, texts)
        sets = read_sets(args.data, lambda own: count_rows(token_rows(tokenizer, own), len(tokenizer)))
        with open(args.output, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, ("change", *COLUMNS))
            writer.writeheader()
            for name, lever in FITS.items():
                table, _ = fitted(vectors, tokens, rows, lever)
                table[silent_ids(tokenizer)] = 0
                writer.writerow(figures((name, table, same), sets))
    print(table_of(args.table or args.output))


if __name__ == "__main__":
    main()
