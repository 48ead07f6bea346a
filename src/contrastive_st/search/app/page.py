"""The search page: a `SearchSession` behind Gradio's widgets."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

from contrastive_st.errors import InputError
from contrastive_st.search.app import page_html
from contrastive_st.search.app.session import MOST_HITS, Answer, SearchSession
from contrastive_st.search.index import one_line

_FONTS = ("system-ui", "-apple-system", "Segoe UI", "Roboto", "DejaVu Sans", "sans-serif")
_MONO = ("ui-monospace", "Consolas", "DejaVu Sans Mono", "monospace")


def build_page(session: SearchSession) -> Any:
    """The page as `gradio.Blocks`; mount it with `page_options()`.

    Raises:
        InputError: the extra `app` is not installed.
    """
    gr = import_gradio()
    names = session.names
    with gr.Blocks(title="Semantic search", analytics_enabled=False, fill_width=True) as page:
        gr.HTML(_heading(session))
        with gr.Row():
            query = gr.Textbox(label="Query", placeholder="what to look for; Enter searches", scale=8, max_lines=1,
                               lines=1, autofocus=True, elem_id="query")  # fmt: skip
            button = gr.Button("Search", variant="primary", scale=1, min_width=110, elem_id="search")
        with gr.Row():
            condition = gr.Textbox(label="Filter", placeholder="source=x; year>=2020", max_lines=1, lines=1, scale=3,
                                   elem_id="filter")  # fmt: skip
            k = gr.Number(label="Hits", value=10, minimum=1, maximum=MOST_HITS, precision=0, scale=1, min_width=90)
            chosen = gr.CheckboxGroup(names, value=names[:1], label="Search in (several: side by side)", scale=3,
                                      visible=len(names) > 1, elem_id="sources")  # fmt: skip
            options = gr.CheckboxGroup(list(OPTIONS), value=list(OPTIONS)[:1], label="Options", scale=3, min_width=330)
        gr.HTML(page_html.columns_html({name: session.columns(name) for name in names}))
        with gr.Tabs():
            with gr.Tab("Hits"):
                gr.HTML(page_html.legend())
                with gr.Row():
                    panes = [gr.HTML(visible=i == 0, min_width=320, elem_classes="pane") for i in range(len(names))]
                panes[0].value = page_html.notice("Nothing searched for yet.")
            with gr.Tab("Map") as tab:
                picture = gr.HTML(page_html.notice("The map is made when it is first looked at."), elem_id="map")
        last = gr.State([])

        def search(*inputs: Any) -> Iterator[Any]:
            for answers, views in find(session, *inputs):
                hidden = [gr.HTML("", visible=False)] * (len(panes) - len(views))
                yield [gr.HTML(view, visible=True) for view in views] + hidden + [answers]

        event = {"fn": search, "inputs": [query, condition, k, chosen, options], "outputs": [*panes, last]}
        for trigger in (query.submit, condition.submit, k.submit, button.click):
            trigger(**event, api_name=False)
        tab.select(lambda names, last: show_map(session, names, last), [chosen, last], picture, api_name=False)
    return page


OPTIONS = {"Show evidence": "evidence", "Also by words": "hybrid"}


def find(
    session: SearchSession, query: str, condition: str, k: Any, names: Sequence[str], options: Sequence[str]
) -> Iterator[tuple[list[Answer], list[str]]]:
    """Answers, and the HTML of each: first the hits as soon as they are there, then with their evidence.

    What cannot be searched for is said in the HTML, with no answer.
    """
    wanted = {OPTIONS[option] for option in options or () if option in OPTIONS}
    answers: list[Answer] = []
    try:
        for name in dict.fromkeys(names) if names else session.names[:1]:
            answers.append(session.answer(name, query or "", int(k or 10), condition or "", "hybrid" in wanted))
    except InputError as error:
        yield [], [page_html.notice(str(error), bad=True)]
        return
    yield answers, [page_html.answer_html(answer) for answer in answers]
    if "evidence" in wanted:
        for i, answer in enumerate(answers):
            answers[i] = session.explained(answer)
        yield answers, [page_html.answer_html(answer) for answer in answers]


def show_map(session: SearchSession, names: Sequence[str], answers: Sequence[Answer]) -> str:
    """HTML of the map of the first source chosen, with the hits that it found last."""
    name = names[0] if names else session.names[0]
    layout = session.map(name)
    words = f"{name}: {len(layout.xy):,} of {layout.sample.total:,} documents; near on the map is near in meaning."
    answer = next((answer for answer in answers if answer.source == name and answer.hits), None)
    if answer is None:
        return page_html.notice(words + " Point at a dot to read it.") + page_html.map_svg(layout)
    words += f" Numbered: the hits of “{one_line(answer.query, 60)}”. Point at a dot to read it."
    return page_html.notice(words) + page_html.map_svg(layout, answer.hits, session.places(answer))


def page_options() -> dict[str, Any]:
    """What the page is mounted with: fonts of the system, own styles, no footer that leads elsewhere."""
    theme = import_gradio().themes.Default(font=list(_FONTS), font_mono=list(_MONO), primary_hue="blue")
    return {
        "theme": theme,
        "css": page_html.resource("page.css"),
        "head": page_html.resource("head.html"),
        "footer_links": [],
    }


def import_gradio() -> Any:
    """gradio, told first to call nobody.

    Raises:
        InputError: it is not installed.
    """
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"  # read when it is imported, and when a page is made
    try:
        import gradio
    except ImportError:
        raise InputError("the page needs gradio; pip install 'contrastive-st[app]'") from None
    return gradio


def _heading(session: SearchSession) -> str:
    sources = [(name, f"{size:,}", session.sources[name].encoder.name) for name, size in session.sizes.items()]
    return page_html.render("heading", sources)
