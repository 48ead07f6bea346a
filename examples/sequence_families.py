"""Families of sequences: read from FASTA, or generated; and finding the family of a held-out one."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction.text import TfidfVectorizer

from contrastive_st import SentenceEncoder
from contrastive_st.errors import InputError
from contrastive_st.evaluation.scorers.retrieval import ranking_metrics, relevant_rows
from sequences import ALPHABETS, SequenceRecord, check_kind, read_fasta, reading_frames

Embed = Callable[[Sequence[str]], NDArray[np.floating]]

Families = dict[str, list[str]]
SEPARATOR = "|"  # separates family and member in a name
#: Classes of letters that evolution exchanges most often: purines and pyrimidines, and the six classes
#: of amino acids of Dayhoff, Schwartz and Orcutt (Atlas of Protein Sequence and Structure 5, 1978)
CLASSES = {
    "dna": ("AG", "CT"), "rna": ("AG", "CU"), "protein": ("AGPST", "C", "DENQ", "FWY", "HKR", "ILMV"),
}  # fmt: skip


def make_families(
    kind: str = "protein",
    families: int = 4000,
    members: int = 4,
    length: int = 240,
    substitution: float = 0.6,
    conservative: float = 0.9,
    indel: float = 0.02,
    seed: int = 0,
) -> list[SequenceRecord]:
    """Generate families of sequences, named `family|member`.

    An ancestor is uniformly random. Each member is an independent copy of it with random changes. A letter is
    substituted at the rate `substitution`, by a letter of its class (`CLASSES`) with probability `conservative`. Before
    each letter, random letters are inserted or letters deleted, each at the rate `indel` (two letters on average).

    Args:
        kind: `dna`, `rna` or `protein`.
        families: number of ancestors.
        members: members of each family.
        length: letters of an ancestor.
        substitution: share of letters changed, from ancestor to member.
        conservative: share of changes within the class; a letter alone in its class becomes any other.
        indel: insertions, and as many deletions, per letter.
        seed: the same seed gives the same families.

    Example:
        >>> two = make_families("dna", families=1, members=2, length=12, substitution=0.1, indel=0.0)
        >>> [(member.name, member.letters) for member in two]
        [('0|0', ...), ('0|1', ...)]
    """
    rates = (substitution, conservative)
    if not all(0 <= rate <= 1 for rate in rates) or not 0 <= indel < 0.5 or min(families, members, length) < 1:
        raise InputError(
            "families need substitution rates of 0 to 1, an indel rate below 0.5, and one of each at least"
        )
    random, letters = np.random.default_rng(seed), np.array(list(ALPHABETS[check_kind(kind)]))
    becomes = exchanges(kind, conservative).cumsum(1)
    found = []
    for family in range(families):
        ancestor = random.integers(len(letters), size=length)
        for member in range(members):
            copy = _mutated(ancestor, becomes, substitution, indel, random)
            found.append(SequenceRecord(f"{family}{SEPARATOR}{member}", "", "".join(letters[copy])))
    return found


def exchanges(kind: str, conservative: float) -> np.ndarray:
    """Probabilities `[letters, letters]` that a changed letter becomes another one; zero for itself.

    Example:
        >>> exchanges("dna", 0.9).round(2)  # of A, C, G, T
        array([[0.  , 0.03, 0.93, 0.03],
               [0.03, 0.  , 0.03, 0.93],
               [0.93, 0.03, 0.  , 0.03],
               [0.03, 0.93, 0.03, 0.  ]])
    """
    letters = ALPHABETS[check_kind(kind)]
    others = 1.0 - np.eye(len(letters))
    own = np.array([[any(a in c and b in c for c in CLASSES[kind]) for b in letters] for a in letters]) * others
    own = np.where(own.any(1, keepdims=True), own, others)
    mixed: NDArray[np.floating] = sum(
        share * matrix / matrix.sum(1, keepdims=True)
        for share, matrix in ((conservative, own), (1 - conservative, others))
    )
    return mixed


def _mutated(
    ancestor: np.ndarray, becomes: np.ndarray, substitution: float, indel: float, random: np.random.Generator
) -> np.ndarray:
    changed, letters = random.random(len(ancestor)) < substitution, len(becomes)
    other = (random.random(len(ancestor))[:, None] >= becomes[ancestor, :-1]).sum(1)
    copy = np.where(changed, other, ancestor)
    parts, at = [], 0
    for place in np.flatnonzero(random.random(len(copy)) < 2 * indel):
        if place < at:
            continue  # removed with those before it
        size = int(random.geometric(0.5))
        parts.append(copy[at:place])
        if random.random() < 0.5:
            parts.append(random.integers(letters, size=size))
            at = int(place)
        else:
            at = int(place) + size
    return np.concatenate([*parts, copy[at:]])


def write_fasta(sequences: list[SequenceRecord], path: str | Path, width: int = 70) -> None:
    """Write sequences, `width` letters per line."""
    with open(path, "w", encoding="ascii") as file:
        for sequence in sequences:
            file.write(f">{sequence.name} {sequence.description}".rstrip() + "\n")
            file.writelines(f"{sequence.letters[i : i + width]}\n" for i in range(0, len(sequence.letters), width))


# --- Sequences by family.


def by_family(sequences: Iterable[SequenceRecord]) -> Families:
    """The letters of sequences by family: what is before the last `|` of a name, else the whole name.

    Example:
        >>> by_family([SequenceRecord(name, "", "MKV") for name in ("a|1", "a|2", "b")])
        {'a': ['MKV', 'MKV'], 'b': ['MKV']}
    """
    families: Families = defaultdict(list)
    for sequence in sequences:
        families[sequence.name.rpartition(SEPARATOR)[0] or sequence.name].append(sequence.letters)
    return dict(families)


def read_families(path: str | Path, kind: str) -> Families:
    """The sequences of a FASTA file by family.

    Raises:
        InputError: as for `read_fasta`, or all letters of what should be proteins are those of nucleotides.
    """
    families = by_family(read_fasta(path, kind))
    letters = {letter for members in families.values() for sequence in members for letter in sequence}
    if kind == "protein" and not letters - set("ACGTUN"):
        raise InputError(f"{path} has no letters but those of nucleotides; give --kind dna, or rna")
    return families


def split_families(families: Families, heldout: int = 300) -> tuple[Families, Families]:
    """Families to train on, and held-out ones: every other family with several members, at most `heldout`.

    Example:
        >>> seen, held_out = split_families({"a": ["MKV", "MRV"], "b": ["WL", "WI"], "c": ["YY"]})
        >>> list(seen), list(held_out)
        (['a', 'c'], ['b'])
    """
    several = [name for name, members in families.items() if len(members) > 1]
    chosen = set(several[1::2][:heldout])
    kept = {name: members for name, members in families.items() if name not in chosen}
    return kept, {name: families[name] for name in several if name in chosen}


# --- Search of held-out families.


def find_families(embed: Embed, families: Mapping[str, Sequence[str]]) -> dict[str, float]:
    """Metrics of finding the rest of each family among all sequences, with its first member as the query.

    Args:
        embed: vectors `[N, d]` of N sequences.
        families: sequences by family, two or more each.

    Returns:
        MRR, recall and nDCG at 10, as `ranking_metrics`.
    """
    queries = [members[0] for members in families.values()]
    documents = [sequence for members in families.values() for sequence in members[1:]]
    sizes = np.cumsum([0, *(len(members) - 1 for members in families.values())])
    judged = relevant_rows(range(start, end) for start, end in itertools.pairwise(sizes))
    return ranking_metrics(embed(queries), embed(documents), judged)


def mean_over_frames(encoder: SentenceEncoder, sequences: Sequence[str], k: int) -> NDArray[np.floating]:
    """The mean of the unit embeddings of the k reading frames, `[N, d]`."""
    frames = [reading_frames(sequence, k) for sequence in sequences]
    mean: NDArray[np.floating] = np.mean(
        [encoder.encode(list(texts), normalize_embeddings=True) for texts in zip(*frames, strict=True)], axis=0
    )
    return mean


def kmer_counting(sequences: Sequence[str], k: int) -> Embed:
    """The baseline: TF-IDF of overlapping k-mers, fitted on `sequences`; returns a function that embeds others."""
    vectorizer = TfidfVectorizer(analyzer="char", ngram_range=(k, k), lowercase=False, max_features=20_000)
    vectorizer.fit(sequences)
    return lambda given: vectorizer.transform(given).toarray().astype(np.float32)
