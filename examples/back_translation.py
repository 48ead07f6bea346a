"""Paraphrases by translation into another language and back: positive pairs from single sentences (CERT)."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from contrastive_st.data.table_writers import table_writer
from contrastive_st.errors import InputError, first_line
from contrastive_st.files.writing import atomic_write
from contrastive_st.tokens import pad_rows, token_ids

logger = logging.getLogger(__name__)


class Translator:
    """A translation model of transformers, called with a list of texts.

    No code of the model's repository is run, and no pickle is opened.

    Args:
        name: folder or Hub name, such as `Helsinki-NLP/opus-mt-en-de`.
        device: where to run it; by default the GPU if there is one.
        max_length: most tokens of a text, and of its translation.
        num_beams: number of beams; 1 is greedy search.

    Raises:
        InputError: the model cannot be opened: it is not found, has no safetensors weights, or needs code from its
            repository.
    """

    def __init__(self, name: str | Path, device: str | None = None, max_length: int = 128, num_beams: int = 4) -> None:
        self.device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        self.max_length, self.num_beams = max_length, num_beams
        try:
            self.tokenizer: Any = AutoTokenizer.from_pretrained(name, trust_remote_code=False)
            model: Any = AutoModelForSeq2SeqLM.from_pretrained(name, use_safetensors=True, trust_remote_code=False)
            self.model = model.to(self.device).eval()
        except (OSError, ValueError, ImportError) as error:
            raise InputError(f"cannot open the translation model {name}: {first_line(error)}") from error

    @torch.inference_mode()
    def __call__(self, texts: Sequence[str]) -> list[str]:
        """The translations, in the order of the texts."""
        rows = token_ids(self.tokenizer, texts, self.max_length)
        given, mask = (tensor.to(self.device) for tensor in pad_rows(rows, self.tokenizer.pad_token_id))
        batch = {"input_ids": given, "attention_mask": mask}
        ids = self.model.generate(**batch, max_new_tokens=self.max_length, num_beams=self.num_beams, do_sample=False)
        translations: list[str] = self.tokenizer.batch_decode(ids, skip_special_tokens=True)
        return translations


def back_translate(texts: Iterable[str], there: Any, back: Any, batch_size: int = 32) -> Iterator[tuple[str, str]]:
    """Yield pairs of a text and its back-translation, without those that are blank or equal to the text.

    Args:
        texts: the texts, read once, a batch at a time.
        there: translates a list of texts, such as a `Translator`.
        back: translates the translations back.
        batch_size: number of texts translated at a time.

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
    """Write pairs to a .csv file with the columns `text` and `back`, for `read_texts`; returns the number of pairs.

    Raises:
        InputError: there are no pairs, or the file cannot be written.
    """
    count = 0
    with atomic_write(path, overwrite=True) as new, table_writer(new, ["text", "back"]) as write:
        for text, back in pairs:
            write({"text": [text], "back": [back]})
            count += 1
        if not count:
            raise InputError("no pairs: every back-translation is blank or equal to its text; try other models")
    logger.info(f"{count} pairs in {path}")
    return count
