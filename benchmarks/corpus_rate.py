"""Rate of training on sentences that stay on disk, against the same sentences tokenized in memory.

    python benchmarks/corpus_rate.py --corpus novels.parquet

A BERT trains on dropout pairs: from rows in memory, from a `SentenceCorpus` in runs of consecutive sentences, and from
one with a shuffle buffer, in rounds in which they take turns. Counted are the tokens a second of the steps after the
first; the ratios are those of the same round. The smaller the model, the more reading weighs.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from machine import machine

os.environ.setdefault("HF_HUB_OFFLINE", "1")

LOGGED = 5  # steps of each result; the first of a run is not counted


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", required=True, help="a .parquet file with columns text and doc")
    parser.add_argument("--sentences", type=int, default=100_000)
    parser.add_argument("--steps", type=int, default=25)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--hidden", type=int, default=384)
    args = parser.parse_args()
    import transformers

    transformers.utils.logging.set_verbosity_error()
    print(f"{machine()}; {args.sentences:,} sentences, {args.layers} layers of {args.hidden}, "
          f"{args.steps} steps of {args.batch}", flush=True)  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        kinds, tokenizer = data(args, Path(folder))
        rates: dict[str, list[float]] = {name: [] for name in kinds}
        for _ in range(args.rounds):
            for name, make in kinds.items():
                rates[name].append(rate(args, make(), tokenizer, folder))
    print("\n| | tokens/s, least to most | of the rate in memory, median (least to most) |\n|---|--:|--:|")
    memory = next(iter(rates.values()))
    for name, own in rates.items():
        ratios = [one / other for one, other in zip(own, memory, strict=True)]
        print(f"| {name} | {min(own):,.0f} to {max(own):,.0f} | {statistics.median(ratios):.3f} "
              f"({min(ratios):.3f} to {max(ratios):.3f}) |")  # fmt: skip


def data(args: argparse.Namespace, folder: Path) -> tuple[dict[str, Callable[[], Any]], Any]:
    """The data by their names, and the tokenizer."""
    import datasets
    import pyarrow as pa
    import pyarrow.parquet as pq

    from contrastive_st import SentenceCorpus, tokenize
    from contrastive_st.data import train_wordpiece

    datasets.config.HF_DATASETS_CACHE = folder
    batches = pq.ParquetFile(args.corpus).iter_batches(args.sentences, columns=["text", "doc"])
    table, part = pa.table(next(batches)), folder / "part.parquet"
    pq.write_table(table, part)
    texts = [text for text in table["text"].to_pylist() if text.strip()]
    tokenizer = train_wordpiece(texts[:20_000], vocab_size=8000, max_length=64)
    rows = datasets.Dataset.from_dict(tokenize(datasets.Dataset.from_dict({"text": texts}), tokenizer, 64)[:])
    kinds: dict[str, Callable[[], Any]] = {
        "rows in memory": lambda: rows,
        "SentenceCorpus": lambda: SentenceCorpus(part, tokenizer, max_length=64),
        "SentenceCorpus, shuffled": lambda: SentenceCorpus(part, tokenizer, max_length=64, shuffle_buffer=20_000),
    }
    return kinds, tokenizer


def rate(args: argparse.Namespace, rows: Any, tokenizer: Any, folder: str) -> float:
    """Tokens a second of one run."""
    import transformers

    from contrastive_st import BertForCL, ContrastiveTrainer, ContrastiveTrainingArguments, DropoutPairCollator

    model = BertForCL(transformers.BertConfig(
        vocab_size=len(tokenizer), hidden_size=args.hidden, num_hidden_layers=args.layers,
        num_attention_heads=args.hidden // 32, intermediate_size=4 * args.hidden, max_position_embeddings=64,
    ))  # fmt: skip
    training = ContrastiveTrainingArguments(
        folder, per_device_train_batch_size=args.batch, max_steps=args.steps, learning_rate=1e-4, save_strategy="no",
        report_to="none", disable_tqdm=True, logging_steps=LOGGED,
    )  # fmt: skip
    trainer = ContrastiveTrainer(model, training, train_dataset=rows, data_collator=DropoutPairCollator(tokenizer))
    trainer.train()
    found = [row["tokens_per_second"] for row in trainer.state.log_history if "tokens_per_second" in row]
    return statistics.median(found[1:])


if __name__ == "__main__":
    main()
