"""DNA, RNA and protein sequences from FASTA files."""

from __future__ import annotations

import gzip
import itertools
import lzma
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from contrastive_st.data.collators import PairCollator
from contrastive_st.data.tokenizers import SPECIAL_TOKENS, check_max_length
from contrastive_st.errors import InputError
from contrastive_st.tokens import token_ids

#: The letters of each kind of sequence, and the letters for several possible ones or an unknown one (IUPAC)
ALPHABETS = {"dna": "ACGT", "rna": "ACGU", "protein": "ACDEFGHIKLMNPQRSTVWY"}
AMBIGUOUS = {"dna": "BDHKMNRSVWY", "rna": "BDHKMNRSVWY", "protein": "BJOUXZ"}


class SequenceRecord(NamedTuple):
    """One record: `name` is the header up to the first space, `description` the rest of it."""

    name: str
    description: str
    letters: str


def check_kind(kind: str) -> str:
    """Return `kind` if it is a key of `ALPHABETS`, else raise `InputError` with the list of keys."""
    if kind not in ALPHABETS:
        raise InputError(f"unknown kind of sequence {kind!r}; choose one of {', '.join(ALPHABETS)}")
    return kind


def read_fasta(path: str | Path, kind: str) -> Iterator[SequenceRecord]:
    """Yield the sequences of a FASTA file one after the other; the file is never held in memory as a whole.

    Lower-case letters (soft masking) become upper case. Ambiguity letters are kept, but a k-mer with one of them is in
    no vocabulary. The stop sign `*` at the end of a protein is left out.

    Args:
        path: a plain file, or one compressed as `.gz` or `.xz`.
        kind: `dna`, `rna` or `protein`.

    Raises:
        InputError: the file does not exist, is not FASTA, or has a record without letters or a letter that the kind
            does not have (such as the gap `-` of an alignment). The message names the file and the line.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "two.fasta")
        ...     _ = path.write_text(">one first of two\\nACGT\\nacgn\\n\\n>two\\nTTTT\\n")
        ...     list(read_fasta(path, "dna"))
        [SequenceRecord(name='one', description='first of two', letters='ACGTACGN'),
         SequenceRecord(name='two', description='', letters='TTTT')]
    """
    wrong = re.compile(f"[^{ALPHABETS[check_kind(kind)]}{AMBIGUOUS[kind]}]")
    header, at = "", 0
    parts: list[str] = []
    for number, line in _lines(Path(path).expanduser()):
        if line.startswith(">"):
            if at:
                yield _record(path, at, header, parts)
            header, at, parts = line[1:].strip(), number, []
        elif not at:
            raise InputError(f"{path}, line {number}: not FASTA, which starts with a line '>name'; give another file")
        else:
            letters = "".join(line.split()).upper()
            found = wrong.search(letters.removesuffix("*") if kind == "protein" else letters)
            if found:
                raise InputError(f"{path}, line {number}: {found.group()!r} {_why(found.group(), kind)}")
            parts.append(letters)
    if not at:
        raise InputError(f"{path}: the file has no sequence; it needs at least one, after a line '>name'")
    yield _record(path, at, header, parts)


def _record(path: str | Path, line: int, header: str, parts: list[str]) -> SequenceRecord:
    letters = "".join(parts)
    if "*" in letters[:-1]:
        raise InputError(
            f"{path}, line {line}: {header[:40]!r} has a stop '*' before its end; translate it in one frame"
        )
    letters = letters.removesuffix("*")
    if not letters:
        raise InputError(f"{path}, line {line}: {header[:40]!r} has no letters; remove the record")
    name, _, description = header.partition(" ")
    return SequenceRecord(name, description.strip(), letters)


def _why(letter: str, kind: str) -> str:
    if letter in "-.":
        return "is a gap of an alignment; give the sequences without gaps"
    others = [name for name in ALPHABETS if name != kind and letter in ALPHABETS[name] + AMBIGUOUS[name]]
    return f"is not a letter of {kind}" + (f"; is it {' or '.join(others)}?" if others else "; fix the file")


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    opened: Any = {".gz": gzip.open, ".xz": lzma.open}.get(path.suffix.lower(), open)
    number = 0
    try:
        with opened(path, "rt", encoding="ascii") as file:
            for number, line in enumerate(file, 1):
                if line.strip() and not line.startswith(";"):
                    yield number, line.strip()
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such file; check the path (seen from {Path.cwd()})") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}, line {number + 1}: not ASCII text; give plain text, .gz or .xz") from error
    except (EOFError, zlib.error, lzma.LZMAError, OSError) as error:
        raise InputError(f"{path}, line {number + 1} cannot be read: {error}; download the file again") from error


# --- Sequences as sentences: a word is a k-mer, and a sequence can be read in k frames.

_MOST = 1 << 18  # most k-mers that are enumerated


def kmer_tokenizer(
    k: int,
    kind: str = "dna",
    frame: int = 0,
    sequences: Iterable[str] | None = None,
    vocab_size: int = 20_000,
    max_length: int = 512,
) -> PreTrainedTokenizerFast:
    """A tokenizer whose words are k-mers: `[CLS]`, the k-mers of one reading frame, `[SEP]`.

    A new word begins after white space, so each k-mer of `overlapping(sequence, k)` is one word. Fewer than k letters
    at the end are left out, and a k-mer with an ambiguity letter is `[UNK]`. T and U are different letters.

    Args:
        k: number of letters of a word.
        kind: `dna`, `rna` or `protein`.
        frame: number of letters left out before the first word, 0 to k - 1.
        sequences: take the most frequent k-mers of these sequences (in all frames) as the vocabulary; among equally
            frequent k-mers, the first in the alphabet. By default the vocabulary has every k-mer.
        vocab_size: most words, special tokens included; only with `sequences`.
        max_length: the tokenizer's `model_max_length`, in words.

    Raises:
        InputError: an unknown kind, a frame not below k, more than 262,144 k-mers without `sequences`, or no room for a
            word between `[CLS]` and `[SEP]`.

    Example:
        >>> tokenizer = kmer_tokenizer(3)
        >>> tokenizer.tokenize("ACGTACGTA"), tokenizer.tokenize("acgn")
        (['ACG', 'TAC', 'GTA'], ['ACG'])
        >>> kmer_tokenizer(3, frame=2).tokenize("ACGTACGTA")
        ['GTA', 'CGT']
        >>> tokenizer.tokenize(overlapping("ACGTA", 3))
        ['ACG', 'CGT', 'GTA']
    """
    letters = ALPHABETS[check_kind(kind)]
    check_max_length(max_length, max_length)
    if k < 1 or not 0 <= frame < k:
        raise InputError(f"frame is {frame} and k is {k}; give a k of 1 or more, and a frame from 0 to k - 1")
    if sequences is not None:
        words = frequent_kmers(sequences, k, letters, vocab_size - len(SPECIAL_TOKENS))
    elif len(letters) ** k > _MOST:
        raise InputError(
            f"there are {len(letters)}^{k} words of {k} letters, too many; give sequences to learn frequent ones from"
        )
    else:
        words = ["".join(word) for word in itertools.product(letters, repeat=k)]
    backend = Tokenizer(models.WordLevel({word: i for i, word in enumerate([*SPECIAL_TOKENS, *words])}, "[UNK]"))
    skip = [normalizers.Replace(Regex(rf"^\s*\S{{{frame}}}"), "")] if frame else []
    upper = [normalizers.Replace(letter.lower(), letter) for letter in letters]
    backend.normalizer = normalizers.Sequence([*upper, *skip])
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(rf"\S{{{k}}}"), "removed", invert=True)
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]",
        mask_token="[MASK]", padding_side="right", model_max_length=max_length,
        model_input_names=["input_ids", "attention_mask"],
    )  # fmt: skip


def frequent_kmers(sequences: Iterable[str], k: int, letters: str, most: int) -> list[str]:
    """The most frequent k-mers of all frames, without those that have ambiguity letters.

    Example:
        >>> frequent_kmers(["ACACN", "CA"], 2, "ACGT", 5)
        ['AC', 'CA']
    """
    counts: Counter[str] = Counter()
    for sequence in sequences:
        counts.update(overlapping(sequence.upper(), k).split())
    known = [(-count, word) for word, count in counts.items() if not word.strip(letters)]
    if not known or most < 1:
        raise InputError(f"no word of {k} letters is left for the vocabulary; give longer sequences or a smaller k")
    return [word for _, word in sorted(known)[:most]]


def overlapping(sequence: str, k: int) -> str:
    """All overlapping k-mers of a sequence, with spaces between them.

    Example:
        >>> overlapping("ACGTA", 3)
        'ACG CGT GTA'
    """
    return " ".join(sequence[i : i + k] for i in range(len(sequence) - k + 1))


def reading_frames(sequence: str, k: int) -> list[str]:
    """The k texts that give the k reading frames to a tokenizer of frame 0.

    Example:
        >>> reading_frames("ACGTACGTA", 3)
        ['ACGTACGTA', 'CGTACGTA', 'GTACGTA']
    """
    return [sequence[frame:] for frame in range(k)]


@dataclass
class FramePairCollator(PairCollator):
    """Collate rows with a sequence in its k frames; two random frames are the positive pair.

    Args:
        tokenizer: as for `PairCollator`, whose other arguments are accepted too.

    Example:
        Ids of three frames; frames 0 and 2 are drawn::

            [{"input_ids": [[2, 7, 8, 3], [2, 9, 3], [2, 6, 3]]}]  ->  input_ids  [[[2, 7, 8, 3], [2, 6, 3, 0]]]
    """

    def __call__(self, rows: Sequence[dict[str, Any]]) -> dict[str, torch.Tensor]:
        """The batch of some rows: `input_ids` and `attention_mask`, `[B, 2, L]`."""
        # the seed is a hash of the batch, so that a resumed run draws the same frames
        seed = zlib.crc32(repr([row["input_ids"][0] for row in rows]).encode())
        generator = torch.Generator().manual_seed(seed)
        pairs = [torch.randperm(len(row["input_ids"]), generator=generator)[:2].tolist() for row in rows]
        chosen = [{"input_ids": [row["input_ids"][i] for i in pair]} for row, pair in zip(rows, pairs, strict=True)]
        return super().__call__(chosen)


def tokenize_frames(sequences: Iterable[str], tokenizer: PreTrainedTokenizerBase, k: int) -> list[dict[str, Any]]:
    """Rows for `FramePairCollator`: the ids of each sequence in its k frames, cut to the tokenizer's maximum length."""
    rows = []
    for sequence in sequences:
        if len(sequence) < 2 * k - 1:
            raise InputError(
                f"{sequence[:40]!r} has fewer than {2 * k - 1} letters, so some frames have no word of {k}; drop it"
            )
        rows.append({"input_ids": token_ids(tokenizer, reading_frames(sequence, k))})
    return rows
