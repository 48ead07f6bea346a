"""The search page: a `SearchSession` behind Gradio's widgets, and what they show as HTML and SVG."""

from __future__ import annotations

import html
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from types import ModuleType
from typing import Any

import jinja2
import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from contrastive_st.errors import one_line as shown_line, require
from contrastive_st.search.analysis.projection import Map, colour, middles, spread
from contrastive_st.search.index import Hit, Refused
from contrastive_st.search.values import one_line
from contrastive_st.serve.session import MOST_HITS, WORD, Answer, SearchSession, shared_words

# --- The page and its widgets.

_FONTS = ("system-ui", "-apple-system", "Segoe UI", "Roboto", "DejaVu Sans", "sans-serif")
_MONO = ("ui-monospace", "Consolas", "DejaVu Sans Mono", "monospace")


def build_page(session: SearchSession) -> Any:
    """The page as `gradio.Blocks`; mount it with `page_options()`.

    Raises:
        InputError: the extra `app` is not installed.
    """
    gr = import_gradio()
    names = session.names

    def heading() -> str:
        sources = [(name, f"{size:,}", session.sources[name].encoder.name) for name, size in session.sizes.items()]
        return render("heading", sources)

    with gr.Blocks(title="Semantic search", analytics_enabled=False, fill_width=True) as page:
        gr.HTML(heading)  # a function, which is called again each time that the page is loaded
        with gr.Row():
            query = gr.Textbox(label="Query", placeholder="what to look for", scale=8, max_lines=1,
                               lines=1, autofocus=True, elem_id="query")  # fmt: skip
            button = gr.Button("Search", variant="primary", scale=1, min_width=110, elem_id="search")
        with gr.Row():
            offered, help = offers([session.filters(name) for name in names])
            condition = gr.Dropdown(offered, value=[], label="Filter", info=help, multiselect=True,
                                    allow_custom_value=True, scale=3, elem_id="filter")  # fmt: skip
            k = gr.Number(label="Hits", value=10, minimum=1, maximum=MOST_HITS, precision=0, scale=1, min_width=90)
            chosen = gr.CheckboxGroup(names, value=names[:1], label="Search in (several: side by side)", scale=3,
                                      visible=len(names) > 1, elem_id="sources")  # fmt: skip
            options = gr.CheckboxGroup([HYBRID], label="Options", scale=1, min_width=160)
        with gr.Tabs():
            with gr.Tab("Hits"):
                with gr.Row():
                    panes = [gr.HTML(visible=i == 0, min_width=320, elem_classes="pane") for i in range(len(names))]
                panes[0].value = render("examples", session.examples(names[0]))
                key = gr.HTML(render("legend"), visible=False)
            with gr.Tab("Map") as tab:
                picture = gr.HTML(notice("The map is made when it is first looked at."), elem_id="map")
        last = gr.State([])
        document = gr.Textbox(visible="hidden", elem_id="similar")  # of which `head.html` says that it was clicked

        def shown(answers: list[Answer], views: list[str]) -> list[object]:
            hidden = [gr.HTML("", visible=False)] * (len(panes) - len(views))
            filled = [gr.HTML(view, visible=True) for view in views]
            return [*filled, *hidden, gr.HTML(visible=any(answer.hits for answer in answers)), answers]

        def search(*inputs: Any) -> list[object]:
            return shown(*find(session, *inputs))

        def similar(*inputs: Any) -> list[object]:
            return shown(*find_similar(session, *inputs))

        event = {"outputs": [*panes, key, last], "api_name": False, "trigger_mode": "always_last"}
        asked = [query, condition, k, chosen, options]
        for trigger in (query.submit, button.click):
            trigger(search, asked, **event)
        for setting in (condition, k, chosen, options):
            setting.change(None, js="() => { searchAgain(); return []; }", api_name=False)  # of `head.html`
        document.change(similar, [document, condition, k, last], **event)
        mapped = lambda names, last, bar=gr.Progress(): show_map(session, names, last, bar)  # noqa: B008
        tab.select(mapped, [chosen, last], picture, api_name=False)
    return page


HYBRID = "Also by words"


def find(
    session: SearchSession,
    query: str,
    condition: Sequence[str],
    k: float | None,
    names: Sequence[str],
    options: Sequence[str],
) -> tuple[list[Answer], list[str]]:
    """The answers of the sources, and the HTML of each.

    A source that cannot be searched, such as one without the column of the filter, has a note in place of hits. If none
    can be, the HTML says why, with no answer.

    Args:
        session: to search in.
        query: any text.
        condition: the filters that are chosen on the page.
        k: how many hits.
        names: the sources; the first one if none is named.
        options: such as `HYBRID`.

    Returns:
        The answers and the HTML of each.
    """
    answers: list[Answer] = []
    faults: list[Exception] = []
    for name in dict.fromkeys(names) if names else session.names[:1]:
        try:
            answers.append(session.answer(name, query or "", int(k or 10), "; ".join(condition), HYBRID in options))
        except Exception as error:
            faults.append(error)
            answers.append(Answer(name, query or "", [], notes=[_line(error)]))
    if len(faults) == len(answers):
        return [], [notice(_line(faults[0]), bad=True)]
    return answers, list(map(answer_html, answers))


def _line(error: Exception) -> str:
    """An error of input or of the database as a line; a defect of this package is raised again."""
    if isinstance(error, Refused):  # whose line may name the database
        return error.what
    if not (line := shown_line(error)):
        raise error
    return line


def find_similar(
    session: SearchSession, clicked: str, condition: Sequence[str], k: float | None, last: list[Answer]
) -> tuple[list[Answer], list[str]]:
    """The same for the documents similar to a hit, which replace the last answer of its source.

    Args:
        session: to search in.
        clicked: JSON of the name of a source, the number of its document as text (it has 64 bits, JavaScript's numbers
            53), and the time of the click.
        condition: the filters that are chosen on the page.
        k: how many documents.
        last: the answers that are shown.

    Returns:
        The answers and the HTML of each.
    """
    try:
        source, id, _ = json.loads(clicked)
        number = int(id)
    except (ValueError, TypeError):  # not of this page
        return last, list(map(answer_html, last))
    try:
        answer = session.similar(source, number, int(k or 10), "; ".join(condition))
    except Exception as error:
        return [], [notice(_line(error), bad=True)]
    answers = [answer if other.source == source else other for other in last] or [answer]
    return answers, list(map(answer_html, answers))


def show_map(
    session: SearchSession, names: Sequence[str], answers: Sequence[Answer], bar: Callable[..., object] | None = None
) -> str:
    """HTML of the map of the first source chosen, with its last hits; `bar` shows how far it is (`gradio.Progress`).

    Args:
        session: to search in.
        names: the sources that are chosen.
        answers: those that are shown.
        bar: a progress bar, called with the numbers of documents.

    Returns:
        HTML.
    """
    name = names[0] if names else session.names[0]
    layout = session.map(name, lambda done, total: bar((done, total), unit="documents") if bar is not None else None)
    message = f"{name}: {len(layout.xy):,} of {layout.sample.total:,} documents; near on the map is near in meaning."
    answer = next((answer for answer in answers if answer.source == name and answer.hits), None)
    if answer is None:
        return notice(message + " Point at a dot to read it.") + map_svg(layout)
    what = "what is similar to" if answer.similar else "the hits of"
    message += f" Numbered: {what} “{one_line(answer.query, 60)}”. Point at a dot to read it."
    return notice(message) + map_svg(layout, answer.hits, session.places(answer, layout))


def page_options() -> dict[str, object]:
    """Options of the page: system fonts, the styles of this package, no footer with external links."""
    theme = import_gradio().themes.Default(font=list(_FONTS), font_mono=list(_MONO), primary_hue="blue")
    return {"theme": theme, "css": resource("page.css"), "head": resource("head.html"), "footer_links": []}


def import_gradio() -> ModuleType:
    """gradio, configured not to send analytics or check for updates.

    Raises:
        InputError: it is not installed.
    """
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"  # read when it is imported, and when a page is made
    return require("the page", "app", "gradio")


# --- What they show: the macros of `templates/page.html.jinja`, with all they are given escaped.

SHOWN, SENT = 1200, 20_000  # characters of a hit that are seen at once, and that unfold; what is longer is cut
_TEMPLATE_MARKS = {ord(mark): f"&#{ord(mark)};" for mark in "${}`"}  # no template engine on the page takes them up


def escape(text: object) -> Markup:
    """The text as HTML that shows it, within tags and within quoted attributes; what is `Markup` stays.

    Example:
        >>> str(escape("<b>${x}</b>"))
        '&lt;b&gt;&#36;&#123;x&#125;&lt;/b&gt;'
    """
    if isinstance(text, Markup):
        return text
    return Markup(html.escape(str(text).replace("\0", "\ufffd")).translate(_TEMPLATE_MARKS))


def render(macro: str, *values: object, **named: object) -> str:
    """The HTML that a macro of the template makes of the values."""
    return str(getattr(_macros(), macro)(*values, **named))


@cache
def _macros() -> object:
    loader = jinja2.PackageLoader("contrastive_st.serve")
    environment = jinja2.Environment(
        loader=loader, autoescape=True, finalize=escape, trim_blocks=True, lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )  # fmt: skip
    return environment.get_template("page.html.jinja").module


def resource(name: str) -> str:
    """A file of the page next to its template: CSS or script."""
    return resources.files("contrastive_st.serve").joinpath(f"templates/{name}").read_text(encoding="utf-8")


def answer_html(answer: Answer) -> str:
    """The name of the source, the times, the notes and the hits."""
    hits = [_hit(answer, i) for i in range(len(answer.hits))]
    similar = one_line(answer.query, 60) if answer.similar else ""
    times = [(what, _time(seconds)) for what, seconds in answer.seconds.items()]
    return render("answer", answer.source, times, answer.notes, hits, similar)


def notice(text: str, bad: bool = False) -> str:
    """A line with a notice."""
    return render("notice", text, bad)


def offers(sources: Sequence[Mapping[str, Sequence[str]]]) -> tuple[list[str], str]:
    """The conditions that the columns of all sources offer as filters, and a line on the syntax."""
    columns = list(dict.fromkeys(key for columns in sources for key in columns))
    conditions = dict.fromkeys(condition for key in columns for source in sources for condition in source.get(key, ()))
    if not columns:
        return [], "The documents have no columns to filter by."
    return list(conditions), f"Choose, or type column>=value. Columns: {', '.join(columns)}."


def _hit(answer: Answer, i: int) -> dict[str, object]:
    """What the template shows of a hit; what goes on beyond what is seen at once unfolds."""
    hit = answer.hits[i]
    shared, text = shared_words(answer.query, hit.text[:SENT]), " ".join(hit.text.split())[:SENT]
    seen, more = (list(_pieces(part, shared)) for part in (text[:SHOWN], text[SHOWN:]))
    metadata = {key: one_line(str(value), 120) for key, value in {**hit.metadata, **hit.place}.items()}
    ids = {"id": hit.own_id, "number": hit.id}
    return {**ids, "score": f"{hit.score:.3f}", "seen": seen, "more": more, "metadata": metadata}


def _pieces(text: str, shared: set[str]) -> Iterator[tuple[str, bool]]:
    """The text in pieces; words of the query are marked."""
    last = 0
    for match in WORD.finditer(text):
        if match[0].casefold() in shared:
            yield from ((text[last : match.start()], False), (match[0], True))
            last = match.end()
    if text[last:]:
        yield text[last:], False


def _time(seconds: float) -> str:
    if seconds < 0.01:
        return f"{1000 * seconds:.1f} ms"
    return f"{1000 * seconds:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


# --- The map as a picture: a dot a document that says its text when pointed at, the hits numbered. It is drawn here and
# not by a plotting library: Gradio's plots put no text next to a point, a picture by matplotlib shows nothing when
# pointed at, and plotly's script weighs more than the rest of the page.

WIDTH, HEIGHT, _EDGE = 1200, 700, 24
_LETTER, _LINE = 8.2, 20  # of the names: their largest width and height, in units of the picture


def map_svg(layout: Map, hits: Sequence[Hit] = (), places: NDArray[np.float32] | None = None) -> str:
    """SVG of the map, with hits at `places` `[hits, 2]`, numbered as in their list.

    Args:
        layout: the map.
        hits: the hits of an answer.
        places: where they are on the map, `[hits, 2]`.

    Returns:
        SVG.
    """
    low, high = layout.xy.min(0), layout.xy.max(0)
    scale = (np.array([WIDTH, HEIGHT]) - 2 * _EDGE) / np.maximum(high - low, 1e-9)

    def at(xy: NDArray[np.float32]) -> NDArray[np.float64]:
        """Positions on the map in units of the picture; the second axis points down."""
        return np.asarray(((xy - low) * scale + _EDGE) * [1, -1] + [0, HEIGHT])

    result = [] if places is None else list(at(places))
    dots = [
        _item(point, one_line(text, 300), colour=colour(int(label)))
        for point, text, label in zip(at(layout.xy), layout.sample.texts, layout.labels, strict=True)
    ]
    numbered = [
        _item(point, one_line(hit.text, 300), colour="", rank=rank)
        for rank, (hit, point) in enumerate(zip(hits, result, strict=True), 1)
    ]
    labels = list(middles(layout))
    sizes = [(_LETTER * len(name) + 8, _LINE) for name, _, _ in labels]
    frame, taken = (2, 2, WIDTH - 2, HEIGHT - 2), [(point, (20, 20)) for point in result]
    free = spread([at(point) for _, point, _ in labels], sizes, frame, taken)
    names = [_item(point, name) for (name, _, _), point in zip(labels, free, strict=True)]
    label = f"Map of {len(dots)} documents in {len(layout.names)} clusters: {', '.join(layout.names)}"
    return render("map", label, WIDTH, HEIGHT, dots, names, numbered)


def _item(point: NDArray[np.float64], text: str, **more: object) -> dict[str, object]:
    return {"x": f"{point[0]:.0f}", "y": f"{point[1]:.0f}", "text": text, **more}
