"""The page of the filters, made by their parser: the grammar, what conditions find, and what is refused.

python docs/filter_page.py          writes docs/filters.md
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from contrastive_st.errors import InputError
from contrastive_st.search.filters import grammar, parse

PAGE = Path(__file__).with_name("filters.md")
#: Filters, each with metadata; the parser says which of them it finds
EXAMPLES: tuple[tuple[str, list[dict[str, Any]]], ...] = (
    ("topic=sea", [{"topic": "sea"}, {"topic": ["sky", "sea"]}, {"topic": "Sea"}]),
    ("category=hr,legal", [{"category": "hr"}, {"category": ["legal", "it"]}, {"category": "it"}]),
    ("topic=sea; topic=sky", [{"topic": ["sky", "sea"]}, {"topic": "sea"}]),
    ("topic!=sea", [{"topic": "sky"}, {"topic": ["sky", "sea"]}, {"topic": None}, {}]),
    ("topic!=sea,sky", [{"topic": "rain"}, {"topic": "sea"}, {"topic": "sky"}]),
    ('title="Hello, world"', [{"title": "Hello, world"}, {"title": "Hello"}]),
    ("year>=2000; year<2010", [{"year": 2004}, {"year": 1999}, {"year": "about 2004"}]),
    ("date>=2024", [{"date": "2024-05-01"}, {"date": "2025"}, {"date": "2023-12-31"}, {"date": "01/05/2024"}]),
    ("date<=2024-05", [{"date": "2024-05-31"}, {"date": "2024-05-31T23:59:00Z"}, {"date": "2024-06-01"}]),
    ("date>2024-05-01T00:00", [{"date": "2024-05-01 09:30"}, {"date": "2024-05-02"}, {"date": "2024-05-01"}]),
    ("date=2024-05-01", [{"date": "2024-05-01"}, {"date": "2024-05-01T09:30:00"}]),
    ("draft=true", [{"draft": True}, {"draft": False}, {"draft": 1}]),
    ("version=1.10", [{"version": "1.10"}, {"version": "1.1"}]),
    ("size=1.50", [{"size": 1.5}, {"size": 15}]),
    ("topic=null", [{}, {"topic": None}, {"topic": []}, {"topic": "sea"}]),
    ("topic!=null", [{"topic": "sea"}, {}, {"topic": None}]),
    ("author.name=Ada", [{"author": {"name": "Ada"}}, {"author": [{"name": "Ada"}]}, {"author": "Ada"}]),
)
REFUSED = ("year", "year>", "date>=March", 'title="Hello', "topic!=sea AND year>1999")


def page() -> str:
    """The text of the page."""
    return f"""# Filters

<!-- written by docs/filter_page.py -->

A filter selects documents by their metadata. It means the same on the command line (`--filter`, which may be repeated),
in Python, on the page of `serve`, over HTTP and in Haystack, for a store and for a folder of shards. The grammar
of a filter that is written as a string:

```text
{grammar()}
```

In Python and JSON a filter may also be a mapping, such as
`{{"topic": ["sea", "sky"], "year": {{">=": 2000, "<": 2010}}}}`, or a list of filters, all of which must hold.

The table shows metadata that a filter finds or does not find. Each element of a list in the metadata counts as a value.

| filter | finds | does not find |
|---|---|---|
{chr(10).join(map(_row, EXAMPLES))}

* A column has the type that `index` prints: `number`, `date`, `text`, `boolean`, lists of these, or `mixed` (several).
  A column of a table is of numbers if each of its cells is written as that number is, so `007` and `1.10` stay text.
  `--types price=number` sets the type, and an index without types gets them when it is indexed again.
  Indexing again keeps these types (`007` stays text), but not `--types day=text` of dates.
* A value that does not fit the type is refused: `price<20` if `price` is text, or `year=soon`. A range (`<`, `<=`,
  `>`, `>=`) takes a number or an ISO date.
* A range compares dates at the precision of the filter, so `date<=2024-05` includes all of May, and ignores time zones.
  With `=`, the whole date and its time zone must be equal. A date without a time is midnight.
* Metadata are stored as JSON: dates and times as ISO 8601 text; durations as seconds; decimals and numpy's numbers as
  numbers; sets, tuples and arrays as lists; NaN and infinity as null.
* The columns `(id)` and `(text)` are the id and the text of a document. If `--split_into` made it, `(document)` is the
  number of its row and `(part)` its number in that row, from 0. Metadata of any name come back as they were given.
* Texts, ids and names of columns are compared in Unicode's normal form NFC, so `é` and `e` with an accent are equal.

## What is refused

| filter | error |
|---|---|
{chr(10).join(f"| `{text}` | {_refusal(text)} |" for text in REFUSED)}

A column that no document has is an error; the message lists the columns. Errors are exit code 2 of the command,
`InputError` in Python, and status 400 over HTTP (404 for an unknown column). If a filter finds nothing, a note names
the condition that no document meets, and lists the values of its column if there are few.
"""


def _row(example: tuple[str, list[dict[str, Any]]]) -> str:
    text, items = example
    found = {held: [f"`{json.dumps(item)}`" for item in items if parse(text).holds(item) is held]
             for held in (True, False)}  # fmt: skip
    return f"| `{text}` | {', '.join(found[True])} | {', '.join(found[False])} |"


def _refusal(text: str) -> str:
    try:
        return f"none: {parse(text)}"
    except InputError as error:
        return f"`{error}`"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
