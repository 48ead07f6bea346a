"""Training sets made of the installed Python documentation: sentences in order, pairs, labelled pairs, triplets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import numpy as np
from datasets import Dataset

from contrastive_st.data.docstrings import SENTENCE_END
from contrastive_st.data.documentation import DocPair, installed_docs, split_pairs
from contrastive_st.files.writing import atomic_write

HELDOUT = 4000  # pairs that the corpus of sentences leaves out


def write_docs_corpus(path: str | Path) -> list[DocPair]:
    """Write the corpus, one sentence per line and a blank line after each module or class; return the held-out pairs.

    The docstrings of one module or class are one document, in the order of its source.
    """
    pairs, heldout = split_pairs(installed_docs(), HELDOUT)
    with atomic_write(path, overwrite=True, parents=True) as new, open(new, "w", encoding="utf-8") as file:
        for _, documents in groupby(pairs, key=lambda pair: pair.source.rpartition(".")[0]):
            for pair in documents:
                for sentence in (pair.title, *SENTENCE_END.split(pair.text)):
                    file.write(" ".join(sentence.split()) + "\n")
            file.write("\n")
    return heldout


def package_of(pair: DocPair) -> str:
    """The top-level package of a documented object."""
    return pair.source.partition(".")[0]


def texts_of(pairs: Sequence[DocPair]) -> Dataset:
    """Two columns: first line, paragraph."""
    return Dataset.from_dict({"title": [pair.title for pair in pairs], "text": [pair.text for pair in pairs]})


def positive_pairs(pairs: Sequence[DocPair]) -> Dataset:
    """Two columns of positive pairs, up to three for each object.

    They are first line and paragraph, and the first sentence of a paragraph with the rest of it and with the first
    line.
    """
    result = [(pair.title, pair.text) for pair in pairs]
    for pair in pairs:
        first, *rest = SENTENCE_END.split(pair.text, maxsplit=1)
        result += [(pair.title, first), (first, rest[0])] if rest else []
    return Dataset.from_dict({"anchor": [pair[0] for pair in result], "positive": [pair[1] for pair in result]})


#: Labels of a paragraph from the same module, and from another package; 0 is the paragraph of the object
NEAR, FAR = 1, 2


def labelled_docs(pairs: Sequence[DocPair], seed: int = 0) -> Dataset:
    """Pairs of a summary and a paragraph, three for each object: its own, one of its module, one of another package.

    `label` is 0, 1 and 2 (as entailment, neutral, contradiction), `score` is 1, 0.5 and 0. An object that is alone in
    its module has no second row.
    """
    random = np.random.default_rng(seed)
    modules: dict[str, list[int]] = defaultdict(list)
    for i, pair in enumerate(pairs):
        modules[pair.source.rpartition(".")[0]].append(i)
    rows: list[dict[str, object]] = []
    for i, pair in enumerate(pairs):
        near = [j for j in modules[pair.source.rpartition(".")[0]] if j != i]
        far = int(random.integers(len(pairs)))
        while package_of(pairs[far]) == package_of(pair) and len({package_of(p) for p in (pairs[0], pairs[-1])}) > 1:
            far = int(random.integers(len(pairs)))
        chosen = [(i, 0), *([(near[int(random.integers(len(near)))], NEAR)] if near else []), (far, FAR)]
        for j, label in chosen:
            rows.append({"first": pair.title, "second": pairs[j].text, "label": label, "score": 1 - label / 2})
    return Dataset.from_list(rows)


def triplets_of(rows: Dataset) -> Dataset:
    """Anchor, positive, negative from `labelled_docs`: the nearest available negative."""
    first, second, label = rows["first"][:], rows["second"][:], rows["label"][:]
    pairs = [i for i in range(len(label) - 1) if label[i] == 0]
    columns = {"anchor": first, "positive": second, "negative": second[1:]}
    return Dataset.from_dict({name: [texts[i] for i in pairs] for name, texts in columns.items()})
