"""Write the numbers of `docs/figures.csv` into the pages that quote them.

    python benchmarks/figures.py

Run it after you changed a row. A page names each number in a comment right behind it, which no reader sees:

    3.8 ms<!-- search.100k.p50 -->, **5.1 x** (4.5 to 5.2)<!-- training.epyc.float32 -->, 3.4%<!-- evaluation.probes -->

The number before the comment, and its interval if one is printed, become those of the row, with as many digits as they
had. A test fails where a page and the file differ, and where a number of the file occurs without its name.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path

ROOT = Path(__file__).parents[1]
NUMBER = r"\d[\d,]*(?:\.\d+)?"
QUOTED = re.compile(
    rf"(?<![\w.,])(?P<value>{NUMBER})(?P<unit>[^\d|]{{0,20}}?)"
    rf"(?:\((?P<low>{NUMBER})(?P<to> to |-)(?P<high>{NUMBER})\))?(?P<end>\*{{0,2}}<!--\s+(?P<name>[a-z][\w.]*)\s+-->)"
)


def pages() -> list[Path]:
    """Every page that may quote a number of the file."""
    folders = ("docs", "model_cards", "src/contrastive_st/static-minilm")
    return [ROOT / "README.md", *(page for folder in folders for page in sorted((ROOT / folder).rglob("*.md")))]


def read(path: Path = ROOT / "docs/figures.csv") -> dict[str, dict[str, str]]:
    """The rows of the file by name."""
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    found = {row["name"]: row for row in rows}
    assert len(found) == len(rows), "a name stands twice in the file"
    return found


def printed(value: str, unit: str, like: str, after: str) -> str:
    """A row's value with the digits of a printed number; what stands after it may turn it into `%`, or ms into s.

    Example:
        >>> printed("5.08", "x", "5.1", " x"), printed("0.034", "x", "3.4", "%"), printed("2606", "ms", "2.6", " s")
        ('5.1', '3.4', '2.6')
    """
    scale = "100" if after.startswith("%") else "0.001" if unit == "ms" and re.match(r" s\b", after) else "1"
    digits = Decimal(1).scaleb(-len(like.partition(".")[2]))
    rounded = (Decimal(value) * Decimal(scale)).quantize(digits, ROUND_HALF_UP)
    return f"{rounded:,}"


def written(text: str, figures: dict[str, dict[str, str]]) -> str:
    """A page with the values of the file at each name.

    Raises:
        KeyError: a name that the file lacks.
    """

    def put(found: re.Match[str]) -> str:
        row, unit = figures[found["name"]], found["unit"]
        value = printed(row["value"], row["unit"], found["value"], unit)
        interval = ""
        if found["low"]:
            low, high = (printed(row[end], row["unit"], found[end], unit) for end in ("low", "high"))
            interval = f"({low}{found['to']}{high})"
        return f"{value}{unit}{interval}{found['end']}"

    return QUOTED.sub(put, text)


def names(text: str) -> Iterator[str]:
    """The numbers that a page names."""
    return (found["name"] for found in QUOTED.finditer(text))


def main() -> None:
    """Write the pages."""
    figures = read()
    for page in pages():
        text = page.read_text(encoding="utf-8")
        if (new := written(text, figures)) != text:
            page.write_text(new, encoding="utf-8")
            print(page.relative_to(ROOT))


if __name__ == "__main__":
    main()
