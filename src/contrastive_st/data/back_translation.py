"""Paraphrases by machine translation into another language and back: positive pairs from single sentences (CERT)."""

from __future__ import annotations

import csv
import logging
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from contrastive_st.errors import InputError

logger = logging.getLogger(__name__)


class Translator:
    """A translation model of transformers: texts in, texts out.

    Args:
        name: folder or Hub name, such as `Helsinki-NLP/opus-mt-en-de`.
        device: where to run it; the GPU where there is one.
        max_length: tokens of a text, and of its translation.
        num_beams: of the search; 1 is greedy.

    Raises:
        InputError: it cannot be opened.
    """

    def __init__(self, name: str | Path, device: str | None = None, max_length: int = 128, num_beams: int = 4) -> None:
        self.device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        self.max_length, self.num_beams = max_length, num_beams
        try:
            self.tokenizer: Any = AutoTokenizer.from_pretrained(name)
            self.model: Any = AutoModelForSeq2SeqLM.from_pretrained(name).to(self.device).eval()
        except (OSError, ValueError, ImportError) as error:
            reason = str(error).strip().split("\n")[0]
            raise InputError(f"cannot open the translation model {name}: {reason}") from error

    @torch.inference_mode()
    def __call__(self, texts: Sequence[str]) -> list[str]:
        """The translations, in the order of the texts."""
        batch = self.tokenizer(
            list(texts), return_tensors="pt", padding=True, truncation=True, max_length=self.max_length
        ).to(self.device)
        batch.pop("token_type_ids", None)
        ids = self.model.generate(**batch, max_new_tokens=self.max_length, num_beams=self.num_beams, do_sample=False)
        return self.tokenizer.batch_decode(ids, skip_special_tokens=True)


def back_translate(texts: Iterable[str], there: Any, back: Any, batch_size: int = 32) -> Iterator[tuple[str, str]]:
    """Pairs of a text and its back-translation; one that is blank, or the text itself, is left out.

    Args:
        texts: read once, a batch at a time.
        there: texts to their translations, such as a `Translator`.
        back: those to texts again.
        batch_size: texts translated at a time.

    Example:
        >>> there, back = (lambda texts: [text.upper() for text in texts]), (lambda texts: [t.lower() for t in texts])
        >>> list(back_translate(["Two cats", "one"], there, back))
        [('Two cats', 'two cats')]
    """
    texts = iter(texts)
    while some := list(islice(texts, batch_size)):
        for text, other in zip(some, back(there(some)), strict=True):
            if other.strip() and other.strip() != text.strip():
                yield text, other.strip()


def write_pairs(pairs: Iterable[tuple[str, str]], path: str | Path) -> int:
    """Write pairs to a .csv file with the columns `text` and `back`, as `read_texts` reads it; returns their number."""
    count = 0
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "back"])
        for pair in pairs:
            writer.writerow(pair)
            count += 1
    if not count:
        raise InputError("every back-translation is blank or the text itself, so there is no pair; try other models")
    logger.info(f"{count} pairs in {path}")
    return count
