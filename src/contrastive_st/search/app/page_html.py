"""The hits of a search as HTML: everything that comes from outside is escaped."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

from contrastive_st.search.analysis.occlusion import WORD, Part, shared_words
from contrastive_st.search.analysis.topics import one_line
from contrastive_st.search.app.session import Answer

SHOWN, SENT = 1200, 20_000  # characters of a hit that are seen at once, and that unfold; what is longer is cut
_TEMPLATE_MARKS = {ord(mark): f"&#{ord(mark)};" for mark in "${}`"}  # no template engine on the page takes them up

CSS = """
.hits {margin: 0; padding: 0; list-style: none; counter-reset: rank}
.hits > li {margin: 0 0 .7em; padding: .7em .9em; border: 1px solid var(--border-color-primary); border-radius: 8px;
  overflow-wrap: anywhere; line-height: 1.5}
.hits .head {display: flex; gap: .8em; align-items: baseline; font-size: .85em; color: var(--body-text-color);
  opacity: .75}
.hits .score {font-weight: 700; font-variant-numeric: tabular-nums}
.hits .meta {font-size: .85em; color: var(--body-text-color); opacity: .75; margin-top: .35em}
.hits .meta b {font-weight: 600}
.hits mark {background: rgba(255, 190, 60, var(--strength)); color: inherit; border-radius: 3px; padding: .05em 0}
.hits u, .legend u {text-decoration-thickness: 2px; text-underline-offset: 3px; text-decoration-color: #2f7fd6}
.legend mark {background: rgba(255, 190, 60, .6); color: inherit; border-radius: 3px; padding: 0 .2em}
#search {align-self: center; max-height: 3.2em}
.legend, .times, .hint {font-size: .85em; color: var(--body-text-color); opacity: .75; margin: .1em 0 .6em}
.found {font-size: 1.05em; font-weight: 700; margin: .2em 0 0}
.notice {padding: .6em .9em; border-radius: 8px; border: 1px solid var(--border-color-primary)}
.notice.bad {border-color: #c0392b}
.hint code {font-size: .95em}
"""


def answer_html(answer: Answer) -> str:
    """The name of the source, the times, the legend and the hits."""
    times = f"encode {_time(answer.encode_seconds)} · query {_time(answer.query_seconds)}"
    if answer.parts is not None:
        times += f" · evidence {_time(answer.explain_seconds)}"
    found = "1 hit" if len(answer.hits) == 1 else f"{len(answer.hits)} hits"
    rows = [_hit(answer, i) for i in range(len(answer.hits))]
    body = f'<ol class="hits">{"".join(rows)}</ol>' if rows else notice("Nothing found. Widen the filter.")
    notes = "".join(notice(note) for note in answer.notes)
    return (
        f'<section aria-label="Hits of {escape(answer.source)}"><p class="found">{escape(answer.source)}: {found}</p>'
        f'<p class="times">{times}</p>{notes}{body}</section>'
    )


def legend() -> str:
    """What the marks in the hits mean."""
    return (
        '<p class="legend">The score is the cosine to the query. <mark>Shaded</mark>: without this sentence (in hits '
        "of one sentence: word) the score would be lower, the darker the more; point at it for how much. "
        "<u>Underlined</u>: this very word is in the query, which need not be why it was found.</p>"
    )


def notice(text: str, bad: bool = False) -> str:
    """A line that says what happened."""
    role = ' role="alert"' if bad else ""
    return f'<p class="notice{" bad" if bad else ""}"{role}>{escape(text)}</p>'


def columns_html(sources: Mapping[str, Mapping[str, Sequence[str]]]) -> str:
    """The metadata columns of each source, with examples, to write filters from."""
    lines: dict[str, list[str]] = {}
    for name, columns in sources.items():
        known = [
            f"<code>{escape(key)}</code>" + (f" ({escape(', '.join(values))})" if values else "")
            for key, values in columns.items()
        ]
        lines.setdefault(" · ".join(known) or "none", []).append(name)
    if len(lines) == 1:
        return f'<p class="hint">Columns to filter by: {next(iter(lines))}</p>'
    return "".join(f'<p class="hint">Columns of {escape(", ".join(own))}: {line}</p>' for line, own in lines.items())


def escape(text: Any) -> str:
    """The text as HTML that shows it, within tags and within quoted attributes.

    Example:
        >>> escape("<b>${x}</b>")
        '&lt;b&gt;&#36;&#123;x&#125;&lt;/b&gt;'
    """
    return html.escape(str(text).replace("\0", "\ufffd")).translate(_TEMPLATE_MARKS)


def _hit(answer: Answer, i: int) -> str:
    hit = answer.hits[i]
    parts = answer.parts[i] if answer.parts is not None else [Part(" ".join(hit.text.split()))]
    shared = shared_words(answer.query, hit.text[:SENT])
    highest = max([part.effect for part in parts] + [1e-4])
    seen, more, length = "", "", 0
    for part in parts:
        for text in (part.text[: max(SHOWN - length, 0)], part.text[max(SHOWN - length, 0) : max(SENT - length, 0)]):
            if text:
                piece = _part(Part(text, part.effect), max(part.effect, 0) / highest, shared)
                seen, more = (seen + piece, more) if length < SHOWN else (seen, more + piece)
                length += len(text)
    body = seen + (f"<details><summary>more</summary>{more}</details>" if more else "")
    meta = " · ".join(f"<b>{escape(key)}</b> {escape(one_line(str(v), 120))}" for key, v in hit.metadata.items())
    return (
        f'<li><div class="head"><span class="score" title="cosine to the query">{hit.score:.3f}</span>'
        f'<span>#{i + 1}</span><span>id {hit.id}</span></div><div dir="auto">{body}</div>'
        + (f'<div class="meta">{meta}</div>' if meta else "")
        + "</li>"
    )


def _part(part: Part, strength: float, shared: set[str]) -> str:
    inner, last = "", 0
    for match in WORD.finditer(part.text):
        if match[0].casefold() in shared:
            inner += escape(part.text[last : match.start()]) + f"<u>{escape(match[0])}</u>"
            last = match.end()
    inner += escape(part.text[last:])
    if strength < 0.15:
        return inner
    bare = inner.rstrip()
    mark = f'<mark style="--strength:{0.75 * strength:.2f}" title="without this: {-part.effect:+.3f}">{bare}</mark>'
    return mark + inner[len(bare) :]


def _time(seconds: float) -> str:
    if seconds < 0.01:
        return f"{1000 * seconds:.1f} ms"
    return f"{1000 * seconds:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"
