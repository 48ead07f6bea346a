"""Write the ledger of capabilities, `docs/capabilities.csv`, as a table into `docs/design.md`.

python docs/capabilities.py
"""

from __future__ import annotations

import csv
from pathlib import Path

DOCS = Path(__file__).parent
PAGE = DOCS / "design.md"
START, END = "<!-- made by docs/capabilities.py -->\n", "<!-- end of the ledger -->\n"


def rows() -> list[dict[str, str]]:
    """The rows of the ledger."""
    with open(DOCS / "capabilities.csv", newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def several(cell: str) -> list[str]:
    """The values of a cell that holds several."""
    return [value for value in cell.split("; ") if value]


def written(page: str) -> str:
    """The page with the table of the ledger in its place."""
    lines = ["| capability | asked by | folder | commands and names |", "|---|---|---|---|"]
    for row in rows():
        names = ", ".join(f"`{name}`" for name in several(row["commands"]) + several(row["names"]))
        folders = ", ".join(f"`{folder}/`" for folder in several(row["folder"]))
        lines.append(f"| {row['capability']} | {row['asked by']} | {folders} | {names} |")
    before, _, rest = page.partition(START)
    return before + START + "\n" + "\n".join(lines) + "\n\n" + END + rest.partition(END)[2]


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
