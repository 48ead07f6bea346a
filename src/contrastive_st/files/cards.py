"""Model cards as files: the metadata in their head, and the mark of a card that nobody edited."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import yaml
from huggingface_hub.repocard import REGEX_YAML_BLOCK, metadata_load

from contrastive_st.errors import about
from contrastive_st.files.reading import JsonObject

CARD = "README.md"
EVALUATION = "evaluation"  # the folder that `contrastive-st evaluate --output` wrote
EVAL_RESULTS = ".eval_results"  # the Hub's folder of scores
CURVE, STATE, TRAINING_METADATA = "training_curve.png", "trainer_state.json", "training_metadata.json"
#: What a folder says of the weights in it
RECORDS = (EVALUATION, EVAL_RESULTS, CURVE, STATE, TRAINING_METADATA)
_HEAD = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
_MARK = re.compile(r"\n<!-- contrastive-st card ([0-9a-f]{16}) -->\n\Z")


def marked(text: str) -> str:
    """The text of a card with the mark that nobody has edited it since, in place of a former mark."""
    text = _MARK.sub("", text)
    return f"{text}\n<!-- contrastive-st card {hashlib.sha256(text.encode()).hexdigest()[:16]} -->\n"


def was_edited(card: Path) -> bool:
    """Whether there is a card with text that differs from what this package wrote.

    (Metadata without a text, and the template that transformers pushes, do not count as edited.)
    """
    if not card.is_file():
        return False
    text = card.read_text(encoding="utf-8", errors="replace")
    if not _HEAD.sub("", text).strip() or "[More Information Needed]" in text:
        return False
    return marked(text) != text


def is_head_alone(card: Path) -> bool:
    """Whether a card has metadata that its owner wrote, but no text of an owner or of this package."""
    text = card.read_text(encoding="utf-8", errors="replace") if card.is_file() else ""
    return bool(text) and not was_edited(card) and marked(text) != text


def read_head(card: Path) -> JsonObject:
    """The metadata of a card, {} if it has none; Norwegian, which is `no`, is False in YAML and "no" here.

    Raises:
        ValueError: the head is not YAML, or not a mapping; the message names the card.
    """
    with about(card):
        head: JsonObject = metadata_load(card) or {}
    languages = head.get("language")
    if isinstance(languages, list):
        head["language"] = ["no" if one is False else one for one in languages]
    return head if languages is not False else head | {"language": "no"}


def with_head(card: Path, head: JsonObject) -> bytes:
    """The content of a card with other metadata; its text and line ends stay, and a mark that held is renewed."""
    text = card.read_bytes().decode("utf-8-sig")
    plain = text.replace("\r\n", "\n")
    is_marked = marked(plain) == plain
    text = plain if is_marked else text
    end = "\r\n" if "\r\n" in text else "\n"
    shown = yaml.safe_dump(head, sort_keys=False, allow_unicode=True, line_break=end)
    result = f"---{end}{shown}---{end}{REGEX_YAML_BLOCK.sub('', text, count=1)}"
    return (marked(result) if is_marked else result).encode()
