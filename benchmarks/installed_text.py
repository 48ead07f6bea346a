"""Text in documents, in a language that this machine's software is translated to: a corpus to try raw text with.

    python benchmarks/installed_text.py uk out/uk.jsonl
    contrastive-st train --train_file out/uk.jsonl --output_dir out/uk --max_steps 300

A document is a translated manual page (of /usr/share/man), with its sentences in order, or a catalogue of translated
messages (.mo below /usr/share), with its messages in the order of the file, which is that of the original messages.
Texts of one or two words, and texts that come a second time, are left out.
"""

from __future__ import annotations

import argparse
import gettext
import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path

_MACRO = re.compile(r"^[.']\s*\\?[A-Za-z]*\s*")
_ESCAPE = re.compile(r"\\f(?:\[[^]]*\]|\(..|.)|\\s[-+]?\d|\\[&%/,:|^]")
_SILENT = ('.\\"', "'\\\"", ".TH", ".de", "..", ".ie")  # comments and definitions
_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])")


def manual_pages(language: str) -> Iterator[list[str]]:
    """The sentences of each manual page."""
    for path in sorted(Path("/usr/share/man", language).rglob("*.gz")):
        with gzip.open(path, "rt", encoding="utf-8", errors="replace") as file:
            lines = [line.rstrip("\n") for line in file if not line.startswith(_SILENT)]
        paragraphs = [""]
        for line in lines:
            if line.startswith((".P", ".LP", ".TP", ".SH", ".SS", ".IP", ".br", ".sp")) or not line.strip():
                paragraphs.append("")
            paragraphs[-1] += " " + _ESCAPE.sub("", _MACRO.sub("", line)).replace("\\-", "-").replace("\\(", "(")
        yield [sentence for paragraph in paragraphs for sentence in _END.split(paragraph.strip())]


def catalogues(language: str) -> Iterator[list[str]]:
    """The messages of each catalogue."""
    for path in sorted(Path("/usr/share").glob(f"**/{language}/LC_MESSAGES/*.mo")):
        try:
            with open(path, "rb") as file:
                found = gettext.GNUTranslations(file)._catalog  # type: ignore[attr-defined]
        except (OSError, UnicodeDecodeError):
            continue
        yield [" ".join(text.split()) for key, text in found.items() if key]


def main() -> None:
    """Write the documents."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("language", help="such as uk, de or ja")
    parser.add_argument("output", type=Path, help=".jsonl")
    parser.add_argument("--only", choices=("manual", "catalogues"))
    args = parser.parse_args()
    kinds = {"manual": manual_pages, "catalogues": catalogues}
    seen: set[str] = set()
    args.output.parent.mkdir(parents=True, exist_ok=True)
    with open(args.output, "w", encoding="utf-8") as file:
        documents = 0
        for name, read in kinds.items():
            if args.only not in (None, name):
                continue
            for sentences in read(args.language):
                own = [text for text in dict.fromkeys(sentences) if len(text.split()) > 2 or len(text) > 40]
                own = [text for text in own if text not in seen]
                if len(own) < 2:
                    continue
                seen.update(own)
                documents += 1
                for text in own:
                    file.write(json.dumps({"text": text, "doc": documents}, ensure_ascii=False) + "\n")
    print(f"{args.output}: {len(seen):,} sentences, {documents:,} documents")


if __name__ == "__main__":
    main()
