"""Search in a language that Debian's manual pages are translated to: from the description of a page to its text.

    apt-get download manpages-de && dpkg -x manpages-de_*.deb pages
    python benchmarks/manual_pages.py pages/usr/share/man/de out/de [--seeds 0 1 2] [-- OPTIONS]

A query is the line of a page's first section ("name - description") without the name. It is searched among the texts of
all pages, without that section. An encoder is trained on these texts, a paragraph a row and a page a document, by
`contrastive-st train --train_file ... OPTIONS`. It searches with vectors of whole pages, and with those of passages,
the best of which counts, and with the sum of both cosines. Compared with scikit-learn's TF-IDF of words and of
characters (`char_wb`, 3 to 5), sublinear, fitted to the pages, in the same three ways; and the encoder's cosines plus
those of characters, which count twice (chosen on Polish). Printed: MRR@10 with 95% intervals, and differences from
characters.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction.text import TfidfVectorizer

from contrastive_st.evaluation.scorers.retrieval import mean_interval
from contrastive_st.static_vectors import StaticVectors

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
from held_out_neighbors import TFIDF

_FONT = re.compile(r"\\f(?:\[[^]]*\]|\(..|.)|\\s[-+]?\d|\\[&%/,:|^]")
_CHARACTER = {
    "\\-": "-",
    "\\(en": "-",
    "\\(aq": "'",
    "\\(cq": "'",
    "\\(oq": "'",
    "\\(lq": '"',
    "\\(rq": '"',
    "\\e": "\\",
}
_OTHER = re.compile(r"\\\(..|\\\[[^]]*\]")
_MACRO = re.compile(r"^[.']\s*\\?[A-Za-z]+\s*")
_SILENT = (
    '.\\"',
    "'\\\"",
    ".TH",
    ".de",
    "..",
    ".ie",
    ".el",
    ".if",
    ".nh",
    ".ad",
    ".hy",
    ".so",
    ".tr",
    ".ds",
    ".nr",
    ".ss",
)
_BREAK = (".P", ".LP", ".TP", ".SS", ".IP", ".br", ".sp", ".nf", ".fi", ".RS", ".RE", ".EX", ".EE", ".TQ")
PASSAGE = 80  # words of a passage, at least


def plain(line: str) -> str:
    """A line without the commands of the typesetter."""
    line = _FONT.sub("", line)
    for written, character in _CHARACTER.items():
        line = line.replace(written, character)
    return _OTHER.sub(" ", _MACRO.sub("", line) if line[:1] in (".", "'") else line)


def sections(text: str) -> Iterator[list[str]]:
    """The paragraphs of each section of a page."""
    paragraphs: list[str] | None = None
    for line in text.splitlines():
        if line.startswith(".SH"):
            if paragraphs is not None:
                yield paragraphs
            paragraphs = [""]
        elif paragraphs is not None and not line.startswith(_SILENT):
            if line.startswith(_BREAK) or not line.strip():
                paragraphs.append("")
            paragraphs[-1] += " " + plain(line)
    if paragraphs is not None:
        yield paragraphs


def pages(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """The description and the paragraphs of each page that has both."""
    described = set()
    for path in sorted(folder.rglob("*.gz")):
        with gzip.open(path, "rt", encoding="utf-8", errors="replace") as file:
            first, *rest = list(sections(file.read())) or [[]]
        name = re.match(r".+? - (.+)", " ".join(" ".join(first).split()))
        body = [" ".join(paragraph.split()) for section in rest for paragraph in section if paragraph.strip()]
        if name and body and len(name[1].split()) > 2 and name[1] not in described:
            described.add(name[1])
            yield name[1], body


def passages(paragraphs: Sequence[str]) -> list[str]:
    """Paragraphs joined to passages of `PASSAGE` words or more."""
    found = [""]
    for paragraph in paragraphs:
        if len(found[-1].split()) >= PASSAGE:
            found.append("")
        found[-1] += f" {paragraph}"
    return found


def reciprocal_ranks(scores: NDArray[Any]) -> NDArray[np.float64]:
    """1 / rank of the page of each query, 0 beyond the tenth, from scores `[n, n]`."""
    ranks = (scores >= scores.diagonal()[:, None]).sum(1)
    found: NDArray[np.float64] = np.where(ranks <= 10, 1 / ranks, 0.0)
    return found


BEST = "TF-IDF of characters"
WAYS = ("pages", "passages", "pages and passages")
CHARACTERS = 2  # their share next to the encoder's


def cosines(encode: Callable[[list[str]], Any], queries: list[str], bodies: Sequence[Sequence[str]]) -> list[Any]:
    """The cosines `[n, n]` of each query with each page in `WAYS`, given a function from texts to unit vectors."""
    asked, cut = encode(queries), [passages(body) for body in bodies]
    whole = _dense(asked @ encode([" ".join(body) for body in bodies]).T)
    starts = np.cumsum([0, *map(len, cut)])[:-1]
    best = np.maximum.reduceat(_dense(asked @ encode([text for own in cut for text in own]).T), starts, axis=1)
    return [whole, best, whole + best]


def _dense(found: Any) -> NDArray[Any]:
    return found.toarray() if hasattr(found, "toarray") else found


def main() -> None:
    """Write the text, train, search and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="manual pages of a language")
    parser.add_argument("output", type=Path, help="folder for the text and the encoders")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    own, options = sys.argv[1:], []
    if "--" in own:
        own, options = own[: own.index("--")], own[own.index("--") + 1 :]
    args = parser.parse_args(own)
    queries, bodies = map(list, zip(*pages(args.folder), strict=True))
    args.output.mkdir(parents=True, exist_ok=True)
    text = args.output / "text.jsonl"
    rows = [{"text": paragraph, "doc": number} for number, body in enumerate(bodies) for paragraph in body]
    text.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    print(f"{len(queries):,} pages, {len(rows):,} paragraphs", flush=True)

    lexical = {}
    for name, how in TFIDF.items():
        model = TfidfVectorizer(sublinear_tf=True, **how).fit([" ".join(body) for body in bodies])
        lexical[name] = cosines(model.transform, queries, bodies)
    of_seeds: dict[str, list[NDArray[np.float64]]] = {}
    for seed in args.seeds:
        folder = args.output / f"seed{seed}"
        command = [sys.executable, "-m", "contrastive_st.cli", "train", "--train_file", str(text), "--output_dir"]
        done = ["--seed", str(seed), "--overwrite_output_dir", "true", "--disable_tqdm", "true", *options]
        subprocess.run([*command, str(folder), *done], check=True)
        encode = partial(StaticVectors.from_pretrained(folder).encode, normalize_embeddings=True)
        found = cosines(encode, queries, bodies)
        both = [one + CHARACTERS * other for one, other in zip(found, lexical[BEST], strict=True)]
        for name, scores in (("encoder", found), ("encoder and characters", both)):
            for way, values in zip(WAYS, scores, strict=True):
                of_seeds.setdefault(f"{name}, {way}", []).append(reciprocal_ranks(values))
    ranks = {
        f"{name}, {way}": reciprocal_ranks(values)
        for name, scores in lexical.items()
        for way, values in zip(WAYS, scores, strict=True)
    }
    ranks |= {name: np.mean(values, 0) for name, values in of_seeds.items()}  # of a query, over the seeds
    for way in (WAYS[0], WAYS[2]):
        ranks |= {f"{name} - {BEST}, {way}": ranks[name] - ranks[f"{BEST}, {way}"] for name in of_seeds if way in name}
    for name, values in ranks.items():
        mean, low, high = mean_interval(values)
        print(f"{name:75} {mean:.3f} [{low:.3f}, {high:.3f}]")


if __name__ == "__main__":
    main()
