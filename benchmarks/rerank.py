"""A cross-encoder as the second stage of a search: what it gains over hybrid search, and its time.

    python benchmarks/rerank.py DATA BASE FOLDER [--steps 100] [--queries 150] [--model MODEL]

Fine-tunes BASE, a BERT with one score, in FOLDER: it learns to tell the document of a query from seven others of its
first 50 hits. Then it reorders 50 hits of other queries, among more documents: questions of qqp/ and sentences of MRPC
that mean the same, and manual pages by their descriptions. Prints nDCG@10, its difference with the 95% interval, and
the processor time and scores with those of sentence-transformers.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import torch
from sentence_transformers import CrossEncoder as Peer
from transformers import AutoModelForSequenceClassification, AutoTokenizer, get_linear_schedule_with_warmup

from contrastive_st.evaluation.scorers.retrieval import mean_interval
from contrastive_st.models.protocol import Encoder, open_encoder
from contrastive_st.search import CrossEncoder, Hit, rerank
from contrastive_st.search.exact import ExactIndex
from hybrid import Task, manual_pages
from machine import machine

HITS, OTHERS, QUERIES, TOKENS = 50, 7, 8, 64


def of_pairs(rows: Iterable[list[str]]) -> Task:
    """Documents: the second texts of all rows. Queries: the first texts of those with the label 1."""
    numbers, queries = dict[str, int](), list[tuple[str, int]]()
    for label, first, second in rows:
        number = numbers.setdefault(second.strip(), len(numbers))
        queries += [(first, number)] if label == "1" else []
    return list(numbers), queries


def tasks(data: Path) -> Iterator[tuple[str, Task, Task]]:
    """Name, what to train on, and what to measure: no query and no right document of one is a query of the other."""
    for name, file, columns in (
        ("questions", "qqp/quora_{}.txt", (0, 1, 2)),
        ("MRPC", "senteval/MRPC/msr_paraphrase_{}.txt", (0, 3, 4)),
    ):
        parts = []
        for part in ("train", "test"):
            lines = (data / file.format(part)).read_text("utf-8-sig").splitlines()
            cells = (line.split("\t") for line in lines)
            parts.append([[row[i] for i in columns] for row in cells if row[0] in ("0", "1") and len(row) > columns[2]])
        seen = {text.strip() for label, *texts in parts[0] if label == "1" for text in texts}
        texts, _ = of_pairs(parts[1] + parts[0])
        _, asked = of_pairs(parts[1])
        yield name, of_pairs(parts[0]), (texts, [(q, n) for q, n in asked if seen.isdisjoint((q.strip(), texts[n]))])
    texts, queries = manual_pages()
    half = len(queries) // 2
    own = of_pairs(["1", query, texts[number]] for query, number in queries[:half])
    yield "manual pages", own, (texts, queries[half:])


def searched(encoder: Encoder, task: Task) -> Iterator[tuple[str, int, list[Hit]]]:
    """Each query, the number of its document, and its first hits by hybrid search."""
    texts, queries = task
    index = ExactIndex(range(len(texts)), texts, encoder.encode_document(texts))
    vectors = encoder.encode_query([text for text, _ in queries])
    for (text, number), vector in zip(queries, vectors, strict=True):
        if vector.any():
            yield text, number, index.search(vector, HITS, text=text)[0]


def train(base: str, folder: Path, found: list[tuple[str, str, list[str]]], steps: int) -> None:
    """Fine-tune a cross-encoder by the softmax of its scores for one right document and some others."""
    torch.manual_seed(0)
    draw = random.Random(0)
    tokenizer = AutoTokenizer.from_pretrained(base, model_max_length=TOKENS)
    model = AutoModelForSequenceClassification.from_pretrained(base, num_labels=1, dtype=torch.float32).train()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
    schedule = get_linear_schedule_with_warmup(optimizer, steps // 10, steps)
    for step in range(steps):
        pairs = [
            (query, text)
            for query, right, others in draw.sample(found, QUERIES)
            for text in [right, *draw.sample(others, OTHERS)]
        ]
        batch = tokenizer(*map(list, zip(*pairs, strict=True)), padding=True, truncation=True, return_tensors="pt")
        scores = model(**batch).logits.view(QUERIES, 1 + OTHERS)
        loss = -scores.log_softmax(1)[:, 0].mean()
        loss.backward()
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        if step % 20 == 0:
            print(f"step {step}: loss {loss.item():.3f}", flush=True)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def measure(name: str, encoder: Encoder, task: Task, folder: Path) -> None:
    ours, theirs = CrossEncoder(folder), Peer(str(folder), device="cpu")
    gains, seconds, apart = list[tuple[float, float]](), list[tuple[float, float]](), 0.0
    for query, wanted, hits in searched(encoder, task):
        begin = time.process_time()
        order = rerank(query, hits, ours, HITS, seconds=60)
        middle = time.process_time()
        if len(seconds) < 20:
            scores = dict(
                zip((hit.id for hit in hits), theirs.predict([(query, hit.text) for hit in hits]), strict=True)
            )
            seconds.append((middle - begin, time.process_time() - middle))
            apart = max(apart, *(abs(hit.score - scores[hit.id]) for hit in order))
        first = [[hit.id for hit in way[:10]] for way in (hits, order)]
        before, after = (1 / np.log2(ids.index(wanted) + 2) if wanted in ids else 0.0 for ids in first)
        gains.append((before, after))
    both, reranked = np.array(gains).T
    mean, low, high = mean_interval(reranked - both)
    here, there = 1000 * np.median(seconds, axis=0)
    print(f"{name} ({len(task[0]):,}, {len(gains)} queries): nDCG@10 {both.mean():.3f} hybrid, {reranked.mean():.3f} "
          f"reranked, {mean:+.3f} [{low:+.3f}, {high:+.3f}]; {here:.0f} ms of CPU for {HITS} hits, "
          f"sentence-transformers {there:.0f} ms; scores within {apart:.0e}", flush=True)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("base")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--queries", type=int, default=150)
    parser.add_argument("--model")
    args = parser.parse_args()
    print(machine())
    encoder, measured, found = open_encoder(args.model), list[tuple[str, Task]](), list[tuple[str, str, list[str]]]()
    for name, (texts, queries), (all_texts, asked) in tasks(args.data):
        random.Random(0).shuffle(asked)
        measured.append((name, (all_texts, asked[: args.queries])))
        for query, number, hits in searched(encoder, (texts, queries[:2000])):
            found.append((query, texts[number], [hit.text for hit in hits if hit.id != number]))
    if not (args.folder / "config.json").exists():
        train(args.base, args.folder, found, args.steps)
    for name, task in measured:
        measure(name, encoder, task, args.folder)


if __name__ == "__main__":
    main()
