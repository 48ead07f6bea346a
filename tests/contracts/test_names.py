"""docs/migrating.md, "Every name": each name of the neighbours exists there, and what stands here for it runs.

To add a row: write it under the heading of its library in docs/migrating.md.

* first column: names in code spans as their users import them (`losses.TripletLoss`, `SentenceTransformer.encode`), or
  an argument (`SentenceTransformer.encode(precision=)`). Each must exist in the installed library.
* `this package`: code that runs in the namespace of `world` below, one span after the other; one that begins with
  `contrastive-st` is read by the parser of the command line. "none" where there is nothing: then the difference says
  what to use.
* `difference`: what is not the same; empty if all is.

`COMPLETE` lists what must be named in full.
"""

import importlib
import inspect
import re
import shlex
from pathlib import Path

import datasets
import numpy as np
import pytest
from small_checkpoints import tiny_bert

import contrastive_st
from conftest import SENTENCES
from contrastive_st import BertForCL, SentenceEncoder

PAGE = Path(__file__).parents[2] / "docs/migrating.md"
LIBRARIES = {"sentence-transformers": "sentence_transformers", "setfit": "setfit", "model2vec": "model2vec"}
MODULES = {  # where the short names of the page are
    "sentence_transformers": {
        "losses": "sentence_transformers.sentence_transformer.losses",
        "evaluation": "sentence_transformers.sentence_transformer.evaluation",
        "modules": "sentence_transformers.sentence_transformer.modules",
        "datasets": "sentence_transformers.sentence_transformer.datasets",
        "readers": "sentence_transformers.sentence_transformer.readers",
        "sampler": "sentence_transformers.base.sampler",
        "util": "sentence_transformers.util",
    }
}


def rows():
    """`(library, names there, code here, difference)` of each row of the tables."""
    library, found = "", []
    for line in PAGE.read_text(encoding="utf-8").partition("\n## Every name\n")[2].partition("\n## ")[0].splitlines():
        if line.startswith("### "):
            library = LIBRARIES[line.removeprefix("### ").partition(":")[0]]
        elif line.startswith("| `"):
            there, here, difference = (cell.strip() for cell in line.strip().strip("|").split(" | "))
            found.append((library, re.findall(r"`([^`]+)`", there), re.findall(r"`([^`]+)`", here), here, difference))
    return found


ROWS = rows()


def module(library, name):
    try:
        return importlib.import_module(MODULES.get(library, {}).get(name, f"{library}.{name}" if name else library))
    except ImportError as error:
        pytest.skip(f"{library} is not installed whole: {error}")


@pytest.fixture(scope="module")
def world(tokenizer, tmp_path_factory):
    """What the code of the table may use."""
    model = BertForCL(tiny_bert(tokenizer, max_position_embeddings=40), pooling="mean")
    folder = tmp_path_factory.mktemp("names")
    SentenceEncoder(model, tokenizer).save_pretrained(folder / "model")
    names = {
        name: getattr(contrastive_st, name) for name in ("SentenceEncoder", "SentenceClassifier", "AutoModelForCL")
    }
    return {
        "table": datasets.Dataset.from_dict({"anchor": SENTENCES[:4], "positive": SENTENCES[4:]}),
        **names, "np": np, "model": model, "tokenizer": tokenizer, 
        "texts": SENTENCES, "queries": SENTENCES[:2], "labels": ["a", "b"] * 4,
        "pairs": list(zip(SENTENCES[:4], SENTENCES[4:], strict=True)), "folder": folder, "name": str(folder / "model"),
        "a": np.eye(3, 4, dtype=np.float32), "b": np.ones((2, 4), np.float32),
    }  # fmt: skip


@pytest.mark.parametrize(("library", "names"), [(row[0], row[1]) for row in ROWS], ids=[row[1][0] for row in ROWS])
def test_each_name_there_exists(library, names):
    for name in names:
        dotted, _, arguments = name.partition("(")
        first, *others = dotted.split(".")
        known = hasattr(module(library, ""), first) and first not in MODULES.get(library, {})
        found = getattr(module(library, ""), first) if known else module(library, first)
        for part in others:
            assert hasattr(found, part) or part in inspect.signature(found.__init__).parameters, name
            found = getattr(found, part, None)
        for argument in re.findall(r"(\w+)=", arguments):
            assert argument in inspect.signature(found).parameters, f"{name}: {argument}"


@pytest.mark.parametrize("row", ROWS, ids=[row[1][0] for row in ROWS])
def test_each_line_here_runs(row, world):
    *_, codes, here, difference = row
    assert codes or (here == "none" and difference), "say what stands here for it, or `none` and what to do"
    encoder = SentenceEncoder(world["model"], world["tokenizer"])
    own = {**world, "encoder": encoder, "static": SentenceEncoder()}
    if row[0] == "setfit":
        own["classifier"] = contrastive_st.SentenceClassifier(world["name"]).fit(SENTENCES, world["labels"])
    for code in codes:
        if code.startswith("contrastive-st"):
            parsed(shlex.split(code)[1:])
        else:
            exec(code, own)


def parsed(argv):
    from contrastive_st.cli import _parser

    if argv[0] != "train":  # each script has its own parser
        _parser()[0].parse_args(argv)


def public(thing):
    return [name for name in getattr(thing, "__all__", dir(thing)) if not name.startswith("_")]


def of_class(name, owner, base):
    return [f"{name}.{member}" for member in public(owner) if member not in dir(base)]


def complete():
    """Names of the installed libraries that the tables must have."""
    from model2vec import StaticModel
    from sentence_transformers import (
        SentenceTransformer,
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )
    from torch import nn
    from transformers import TrainingArguments

    yield from of_class("SentenceTransformer", SentenceTransformer, nn.Module)
    yield from of_class("StaticModel", StaticModel, object)
    yield from (f"SentenceTransformer({argument}=)" for argument in inspect.signature(SentenceTransformer).parameters)
    for argument in [*inspect.signature(SentenceTransformer.encode).parameters][1:-1]:
        yield f"SentenceTransformer.encode({argument}=)"
    for kind in (SentenceTransformerTrainer, SentenceTransformerTrainingArguments):
        new = inspect.signature(kind).parameters.keys() - inspect.signature(TrainingArguments).parameters.keys()
        yield from (f"{kind.__name__}({argument}=)" for argument in new - {"args"})
    for part in COMPLETE:
        yield from (f"{part}.{name}" for name in module("sentence_transformers", part).__all__)


COMPLETE = ["losses", "evaluation", "sampler", "datasets", "readers"]  # still to come: "util", "modules"


def test_no_name_is_missing():
    named = {name for row in ROWS for name in row[1]}
    named |= {f"{name.partition('(')[0]}({argument}=)" for name in named for argument in re.findall(r"(\w+)=", name)}
    assert not [name for name in complete() if name not in named]
