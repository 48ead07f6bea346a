"""Generated families of sequences, whose homology is known: an ancestor each, and mutated copies of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from contrastive_st.data.sequences import ALPHABETS, Sequence, check_kind
from contrastive_st.errors import InputError

SEPARATOR = "|"  # of family and member in a name


def make_families(
    kind: str = "dna",
    families: int = 400,
    members: int = 8,
    length: int = 240,
    substitution: float = 0.3,
    indel: float = 0.02,
    seed: int = 0,
) -> list[Sequence]:
    """Families of sequences, named `family|member`.

    An ancestor is uniformly random. Each member is a copy of it of its own: a letter becomes another one at the rate
    `substitution`; before a letter, at the rate `indel` each, random letters are put in or letters are taken out, one
    or more (two on average).

    Args:
        kind: `dna`, `rna` or `protein`.
        families: number of ancestors.
        members: of each family.
        length: letters of an ancestor.
        substitution: share of letters changed, from ancestor to member.
        indel: insertions, and as many deletions, per letter.
        seed: the same seed gives the same families.

    Example:
        >>> two = make_families(families=1, members=2, length=12, substitution=0.1, indel=0.0)
        >>> [(member.name, member.letters) for member in two]
        [('0|0', ...), ('0|1', ...)]
    """
    if not 0 <= substitution <= 1 or not 0 <= indel < 0.5 or min(families, members, length) < 1:
        raise InputError(
            "families need a substitution rate of 0 to 1, an indel rate below 0.5, and one of each at least"
        )
    random, letters = np.random.default_rng(seed), np.array(list(ALPHABETS[check_kind(kind)]))
    found = []
    for family in range(families):
        ancestor = random.integers(len(letters), size=length)
        for member in range(members):
            copy = _mutated(ancestor, len(letters), substitution, indel, random)
            found.append(Sequence(f"{family}{SEPARATOR}{member}", "", "".join(letters[copy])))
    return found


def _mutated(
    ancestor: np.ndarray, letters: int, substitution: float, indel: float, random: np.random.Generator
) -> np.ndarray:
    changed = random.random(len(ancestor)) < substitution
    copy = np.where(changed, (ancestor + random.integers(1, letters, size=len(ancestor))) % letters, ancestor)
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
