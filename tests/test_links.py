"""No link, image or anchor in the Markdown of the repository is dead. (Addresses of the web are not asked.)"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("docs", "model_cards", "examples", "benchmarks", "findings", ".github", "src/contrastive_st/static-minilm")
PAGES = sorted([*ROOT.glob("*.md"), *(page for folder in FOLDERS for page in (ROOT / folder).rglob("*.md"))])
CODE = re.compile(r"^(```|~~~).*?^\1|^(?: {4}|\t).*?$|`[^`\n]*`", re.M | re.S)
LINK = re.compile(r"\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)|^\[[^\]]+\]:\s*(\S+)|(?:src|href)=\"([^\"]+)\"", re.M)


def links(text):
    """The targets of links and images outside of code."""
    prose = CODE.sub("", text)
    found = [next(filter(None, match.groups())) for match in LINK.finditer(prose)]
    return [target for target in found if not re.match(r"[a-z]+:", target)]


def anchors(text):
    """The anchors of the headings of a page, as GitHub and the site make them."""
    found, code = set(), re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    for heading in re.findall(r"^#{1,6} +(.+?)(?: +#+)?$", code, re.M):
        plain = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").replace("*", "")
        words = re.sub(r"[^\w\- ]", "", plain.lower()).strip()
        found |= {words.replace(" ", "-"), re.sub(r"[-\s]+", "-", words)}
    return found | set(re.findall(r"\b(?:id|name)=\"([^\"]+)\"", text))


def dead(page):
    """The dead links of a page."""
    for target in links(page.read_text(encoding="utf-8")):
        path, _, anchor = target.partition("#")
        place = (page.parent / path).resolve() if path else page
        checked = anchor and place.suffix == ".md" and place.exists()
        if not place.exists() or (checked and anchor not in anchors(place.read_text(encoding="utf-8"))):
            yield target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_no_link_is_dead(page):
    assert not list(dead(page))


def test_dead_links_are_seen(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# A `head`-line: one\n\n[a](#a-head-line-one) [b](#no) ![c](no.png) `[d](no)`\n\n    [e](no)\n\n[f](g)\n"
    )
    assert list(dead(page)) == ["#no", "no.png", "g"]


def prose(text):
    """The text of a page without code, comments and tables."""
    text = re.sub(r"^```.*?^```$|<!--.*?-->", "", text, flags=re.M | re.S)
    return "\n".join(line for line in text.split("\n") if not re.match(r"    | *\|", line))


def test_the_documentation_is_short():
    pages = list((ROOT / "docs").glob("*.md"))
    words = sum(len(prose(page.read_text(encoding="utf-8")).split()) for page in pages)
    assert len(pages) <= 24
    assert 20_000 < words < 26_000, words  # fewer than 20,000: `prose` takes text for code
