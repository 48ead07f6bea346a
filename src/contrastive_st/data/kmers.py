"""Sequences as sentences: a word is a k-mer, and a sequence can be read in k frames.

    ACGTACGTA, k = 3      frame 0      ACG TAC GTA
                          frame 1      CGT ACG
                          frame 2      GTA CGT
                          overlapping  ACG CGT GTA TAC ACG CGT GTA

The frames of one sequence share no letters' positions as words, and tell of the same molecule: two of them are a
positive pair (the reading frames of ProtVec, Asgari and Mofrad 2015, for any k).
"""

from __future__ import annotations

import itertools
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from contrastive_st.data.collators import PairCollator
from contrastive_st.data.sequences import ALPHABETS, check_kind
from contrastive_st.data.wordpiece import SPECIAL_TOKENS
from contrastive_st.errors import InputError

_MOST = 1 << 18  # k-mers that are enumerated


def kmer_tokenizer(
    k: int,
    kind: str = "dna",
    frame: int = 0,
    sequences: Iterable[str] | None = None,
    vocab_size: int = 20_000,
    max_length: int = 512,
) -> PreTrainedTokenizerFast:
    """A tokenizer whose words are k-mers: `[CLS]`, the k-mers of one reading frame, `[SEP]`.

    White space starts anew: of `overlapping(sequence, k)`, which is k-mers with spaces between, each is one word. Less
    than k letters at the end are left out; a k-mer with an ambiguity letter is `[UNK]`. RNA and DNA are told apart.

    Args:
        k: letters of a word.
        kind: `dna`, `rna` or `protein`.
        frame: letters left out before the first word, 0 to k - 1.
        sequences: learn the `vocab_size` most frequent k-mers of these (in all frames; of equally frequent ones the
            first of the alphabet). By default the vocabulary is every k-mer.
        vocab_size: most words, special tokens included; only with `sequences`.
        max_length: the tokenizer's `model_max_length`, in words.

    Raises:
        InputError: an unknown kind, a frame that k has not, or more than 262,144 k-mers and no sequences to learn from.

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
    if k < 1 or not 0 <= frame < k:
        raise InputError(f"frame {frame} of words of {k} letters: there are the frames 0 to k - 1, and k is 1 or more")
    if sequences is not None:
        words = frequent_kmers(sequences, k, letters, vocab_size - len(SPECIAL_TOKENS))
    elif len(letters) ** k > _MOST:
        raise InputError(
            f"there are {len(letters)}^{k} words of {k} letters; give sequences to learn frequent ones from"
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
    """The most frequent k-mers of all frames, without ambiguity letters.

    Example:
        >>> frequent_kmers(["ACACN", "CA"], 2, "ACGT", 5)
        ['AC', 'CA']
    """
    counts: Counter[str] = Counter()
    for sequence in sequences:
        counts.update(overlapping(sequence.upper(), k).split())
    known = [(-count, word) for word, count in counts.items() if not word.strip(letters)]
    if not known or most < 1:
        raise InputError(f"no word of {k} letters is left for the vocabulary; give longer sequences, or a smaller k")
    return [word for _, word in sorted(known)[:most]]


def overlapping(sequence: str, k: int) -> str:
    """All k-mers of a sequence, one letter after the other, with spaces between.

    Example:
        >>> overlapping("ACGTA", 3)
        'ACG CGT GTA'
    """
    return " ".join(sequence[i : i + k] for i in range(len(sequence) - k + 1))


def reading_frames(sequence: str, k: int) -> list[str]:
    """The k texts that a tokenizer of frame 0 reads in the k frames.

    Example:
        >>> reading_frames("ACGTACGTA", 3)
        ['ACGTACGTA', 'CGTACGTA', 'GTACGTA']
    """
    return [sequence[frame:] for frame in range(k)]


@dataclass
class FramePairCollator(PairCollator):
    """Rows that hold each sequence in its k frames, of which two are the positive pair, other ones in other batches.

    Args:
        tokenizer: as of `PairCollator`, which takes the rest of the arguments too.

    Example:
        Ids of three frames; frames 0 and 2 are drawn::

            [{"input_ids": [[2, 7, 8, 3], [2, 9, 3], [2, 6, 3]]}]  ->  input_ids  [[[2, 7, 8, 3], [2, 6, 3, 0]]]
    """

    def __call__(self, rows: Sequence[dict[str, Any]]) -> dict[str, torch.Tensor]:
        # drawn from what is in the batch, so that a resumed run draws the same
        seed = zlib.crc32(repr([row["input_ids"][0] for row in rows]).encode())
        generator = torch.Generator().manual_seed(seed)
        pairs = [torch.randperm(len(row["input_ids"]), generator=generator)[:2].tolist() for row in rows]
        chosen = [{"input_ids": [row["input_ids"][i] for i in pair]} for row, pair in zip(rows, pairs, strict=True)]
        return super().__call__(chosen)


def tokenize_frames(sequences: Iterable[str], tokenizer: PreTrainedTokenizerBase, k: int) -> list[dict[str, Any]]:
    """Rows for `FramePairCollator`: the ids of each sequence in its k frames, cut to the tokenizer's length."""
    rows = []
    for sequence in sequences:
        if len(sequence) < 2 * k - 1:
            raise InputError(
                f"{sequence[:40]!r} has fewer than {2 * k - 1} letters, so not every frame has a word of {k}"
            )
        rows.append({"input_ids": tokenizer(reading_frames(sequence, k), truncation=True)["input_ids"]})
    return rows
