"""Generated families of sequences, whose homology is known: an ancestor each, and mutated copies of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from contrastive_st.data.sequences import ALPHABETS, Sequence, check_kind
from contrastive_st.errors import InputError

SEPARATOR = "|"  # of family and member in a name
#: Letters that evolution exchanges for each other more than for the rest: purines and pyrimidines, and the six classes
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
) -> list[Sequence]:
    """Families of sequences, named `family|member`.

    An ancestor is uniformly random. Each member is a copy of it of its own: a letter becomes another one at the rate
    `substitution`, and `conservative` of the time one of its class (`CLASSES`); before a letter, at the rate `indel`
    each, random letters are put in or letters are taken out, one or more (two on average).

    Args:
        kind: `dna`, `rna` or `protein`.
        families: number of ancestors.
        members: of each family.
        length: letters of an ancestor.
        substitution: share of letters changed, from ancestor to member.
        conservative: share of those that stay in their class; letters alone in theirs become any other.
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
            found.append(Sequence(f"{family}{SEPARATOR}{member}", "", "".join(letters[copy])))
    return found


def exchanges(kind: str, conservative: float) -> np.ndarray:
    """What a letter becomes when it changes: probabilities `[letters, letters]`, zero for itself.

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
    return sum(
        share * matrix / matrix.sum(1, keepdims=True)
        for share, matrix in ((conservative, own), (1 - conservative, others))
    )  # type: ignore[return-value]


def _mutated(
    ancestor: np.ndarray, becomes: np.ndarray, substitution: float, indel: float, random: np.random.Generator
) -> np.ndarray:
    changed, letters = random.random(len(ancestor)) < substitution, len(becomes)
    other = (random.random(len(ancestor))[:, None] >= becomes[ancestor, :-1]).sum(1)
    copy = np.where(changed, other, ancestor)
    parts, at = [], 0
    for place in np.flatnonzero(random.random(len(copy)) < 2 * indel):
        if place < at:
            continue  # taken out with those before it
        size = int(random.geometric(0.5))
        parts.append(copy[at:place])
        if random.random() < 0.5:
            parts.append(random.integers(letters, size=size))
            at = int(place)
        else:
            at = int(place) + size
    return np.concatenate([*parts, copy[at:]])


def write_fasta(sequences: list[Sequence], path: str | Path, width: int = 70) -> None:
    """Write sequences, `width` letters a line."""
    with open(path, "w", encoding="ascii") as file:
        for sequence in sequences:
            file.write(f">{sequence.name} {sequence.description}".rstrip() + "\n")
            file.writelines(f"{sequence.letters[i : i + width]}\n" for i in range(0, len(sequence.letters), width))
