"""How much of the package a common use enters: files, functions, and their lines of code.

    python benchmarks/ways.py

Ten uses run in this process, one after another, under `sys.setprofile`; imports do not count. A function counts once
for each use that enters it, and so does a file. Lines are lines of code of the functions entered, without docstrings,
comments and blank lines. The five uses that sentence-transformers and model2vec have too are counted for these as well.
"""

from __future__ import annotations

import ast
import functools
import inspect
import io
import sys
import tempfile
import tokenize as tokens
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).parents[1]
DATA, MODEL, STATIC = (
    ROOT / name for name in ("examples/data", "model_cards/minilm-1-layer", "src/contrastive_st/static-minilm")
)
COLUMNS = {"question": "anchor", "answer": "positive"}
LAYOUT = {tokens.COMMENT, tokens.NL, tokens.NEWLINE, tokens.INDENT, tokens.DEDENT, tokens.ENDMARKER}


@functools.cache
def code_lines(path: str) -> frozenset[int]:
    """The numbers of the lines of a file that hold code."""
    text = Path(path).read_text(encoding="utf-8")
    lines: set[int] = set()
    for token in tokens.generate_tokens(io.StringIO(text).readline):
        if token.type not in LAYOUT:
            lines |= set(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and node.body:
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                lines -= set(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return frozenset(lines)


def entered(use: Callable[[], object], package: str) -> set[CodeType]:
    """The functions of a package that a use enters."""
    seen: set[CodeType] = set()
    inside = f"/{package}/"

    def note(frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        # `<...>`: modules, lambdas and comprehensions, which belong to a function that is entered too
        of_package = event == "call" and inside in code.co_filename and not code.co_name.startswith("<")
        if of_package and code.co_flags & inspect.CO_OPTIMIZED:  # the body of a class is not
            seen.add(code)

    sys.setprofile(note)
    try:
        use()
    finally:
        sys.setprofile(None)
    return seen


def counts(codes: set[CodeType]) -> tuple[int, int, int]:
    """Files, functions and lines of code of these functions; an inner function's lines count once."""
    lines = {
        (code.co_filename, line)
        for code in codes
        for _, _, line in code.co_lines()
        if line is not None and line in code_lines(code.co_filename)
    }
    return len({code.co_filename for code in codes}), len(codes), len(lines)


def our_uses(folder: Path) -> Iterator[tuple[str, Callable[[], object]]]:
    """The ten uses, in an order in which each has what it needs."""
    import datasets

    from contrastive_st import PairCollator, SentenceEncoder, open_index, read_examples, tokenize
    from contrastive_st.models import AutoModelForCL, load_tokenizer

    datasets.config.HF_DATASETS_CACHE = folder / "cache"  # else token ids may come from an earlier run
    pairs, shards = str(DATA / "pairs.csv"), str(folder / "shards")
    made: dict[str, Any] = {}
    yield "open a transformer folder", lambda: made.update(encoder=SentenceEncoder(str(MODEL)))
    yield "encode one text", lambda: made["encoder"].encode("a cat sat on the mat")
    yield "open the static model", lambda: made.update(static=SentenceEncoder())
    yield "encode one text with it", lambda: made["static"].encode("a cat sat on the mat")
    yield "read 60 rows", lambda: made.update(rows=read_examples(pairs)[0])
    yield "read them with columns", lambda: read_examples(pairs, columns=COLUMNS)
    tokenizer, model = load_tokenizer(str(MODEL)), AutoModelForCL.from_pretrained(str(MODEL), loss="info_nce")
    rows, collator = made["rows"], PairCollator(tokenizer)
    yield (
        "tokenize and collate",
        lambda: made.update(batch=collator(list(tokenize(rows, tokenizer).select(range(8))))),
    )
    batch = {name: made["batch"][name] for name in ("input_ids", "attention_mask")}
    yield "views and InfoNCE of a batch", lambda: model(**batch)
    from contrastive_st.cli import main
    from contrastive_st.search.opening import open_encoder_for

    main(["index", str(DATA / "documents.jsonl"), "--output", shards, "--quiet"])

    def open_shards() -> None:
        made["index"] = open_index(shards)
        made["encoder"] = open_encoder_for(made["index"])

    yield "open shards with their model", open_shards
    wolf = made["encoder"].encode("a wolf")
    yield "a query with a filter", lambda: made["index"].search(wolf, 3, filter="year>=2021")


def sentence_transformers_uses() -> Iterator[tuple[str, Callable[[], object]]]:
    """The uses that sentence-transformers has too, with the same folders."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

    made: dict[str, Any] = {}
    yield "open a transformer folder", lambda: made.update(encoder=SentenceTransformer(str(MODEL), device="cpu"))
    yield "encode one text", lambda: made["encoder"].encode("a cat sat on the mat")
    yield "open the static model", lambda: made.update(static=SentenceTransformer(str(STATIC), device="cpu"))
    yield "encode one text with it", lambda: made["static"].encode("a cat sat on the mat")
    pairs = [made["encoder"].tokenize(["a cat", "a dog"]) for _ in range(2)]
    loss = MultipleNegativesRankingLoss(made["encoder"])
    yield "views and InfoNCE of a batch", lambda: loss(pairs, None)


def model2vec_uses() -> Iterator[tuple[str, Callable[[], object]]]:
    """The uses that model2vec has too."""
    from model2vec import StaticModel

    made: dict[str, Any] = {}
    yield "open the static model", lambda: made.update(static=StaticModel.from_pretrained(str(STATIC)))
    yield "encode one text with it", lambda: made["static"].encode("a cat sat on the mat")


def table(uses: Iterator[tuple[str, Callable[[], object]]], package: str) -> dict[str, tuple[int, int, int]]:
    """Files, functions and lines of each use."""
    return {name: counts(entered(use, package)) for name, use in uses}


def main() -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as folder:
        tables = [
            table(our_uses(Path(folder)), "contrastive_st"),
            table(sentence_transformers_uses(), "sentence_transformers"),
            table(model2vec_uses(), "model2vec"),
        ]
    print("| use | contrastive-st: files, functions, lines | sentence-transformers | model2vec |\n|---|---|---|---|")
    for name in tables[0]:
        cells = (", ".join(map(str, rows[name])) if name in rows else "" for rows in tables)
        print("|", " | ".join([name, *cells]), "|")
    for title, names in (("all", set(tables[0])), ("also in sentence-transformers", set(tables[1]))):
        sums = [[sum(rows.get(name, (0, 0, 0))[part] for name in names) for part in range(3)] for rows in tables]
        print("|", " | ".join([title, *(", ".join(map(str, row)) for row in sums)]), "|")


if __name__ == "__main__":
    main()
