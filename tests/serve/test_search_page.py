"""The page without a browser: the session, the HTML, who is let in."""

import html
import json
import re
import sys
from dataclasses import replace

import numpy as np
import pytest
from search_fakes import WordEncoder, topic_index, topic_texts
from starlette.responses import Response
from starlette.testclient import TestClient

from contrastive_st import InputError
from contrastive_st.cli import main
from contrastive_st.errors import install
from contrastive_st.serve.gate import is_loopback, read_token
from contrastive_st.serve.page import answer_html, find, find_similar, map_svg, offers, render, show_map
from contrastive_st.serve.serving import COOKIE, PageGate, check_token
from contrastive_st.serve.session import LONGEST_QUERY, SearchSession, Source
from contrastive_st.vectors import unit_vectors

HOSTILE = [
    "'; DROP TABLE documents; --",
    '"><script>window.hacked = 1</script>',
    "<img src=x onerror='window.hacked = 1'>",
    "${window.hacked = 1} {{window.hacked = 1}} `${1}`",
    "nul \0 within",
    "half a pair \ud800 of surrogates",
    "😀 👩‍👩‍👧 \u202e reversed",
    "x" * 1_000_000,
    "tide " * 200_000,
]

OURS = {
    *("section", "p", "ol", "ul", "li", "div", "span", "b", "u", "mark", "details", "summary", "button"),
    *("svg", "g", "circle", "title", "text"),
}


@pytest.fixture
def served():
    encoder, other = WordEncoder(), WordEncoder(16, "short words", "words-16")
    texts, metadata = topic_texts()
    texts = [*texts, HOSTILE[1] + HOSTILE[2] + HOSTILE[3] + " tide"]
    metadata = [*metadata, {"topic": "<b onclick='window.hacked = 1'>", "year": 2001}]
    indices = [topic_index(encoder=e, texts=texts, metadata=metadata) for e in (encoder, other)]
    return SearchSession([Source("long", indices[0], encoder), Source("short", indices[1], other)])


def test_an_answer_is_the_index_s_own(served):
    source, mapping = served.sources["long"], {"topic": ["sea"], "year": {">=": 2000}}
    wanted = source.index.search(source.encoder.encode(["tide at the harbour"])[0], 5, filter=mapping)[0]
    assert len(wanted) == 5
    for filter in ("topic=sea; year>=2000", mapping):
        answer = served.answer("long", "tide at the harbour", k=5, filter=filter)
        assert answer.hits == wanted
    assert answer.seconds.keys() == {"encode", "query"}
    similar = [served.similar("long", wanted[0].id, filter=one).hits for one in ("topic=sea", {"topic": "sea"})]
    assert similar[0] == similar[1]
    hybrid = served.answer("long", "tide", k=5, hybrid=True)
    assert hybrid.hits == source.index.search(source.encoder.encode(["tide"])[0], 5, text="tide")[0]
    assert len(served.answer("long", "tide", k=0).hits) == 1
    assert len(served.answer("long", "tide", k=10**9).hits) == 50


@pytest.mark.parametrize("query", HOSTILE)
def test_hostile_queries_are_searched_for_like_others(served, query):
    for hybrid in (False, True):
        answer = served.answer("long", query, hybrid=hybrid)
        assert len(answer.hits) == 10
        assert len(answer.query) <= LONGEST_QUERY
    assert bool(answer.notes) == (len(query) > LONGEST_QUERY or "\0" in query or "\ud800" in query)
    _, views = find(served, query, [], 10, ["long", "short"], [])
    assert_harmless("".join(views))


@pytest.mark.parametrize("query", ["", " \n\t ", "\0", "\u00a0", None])
def test_empty_queries_are_told_so(served, query):
    answers, (view,) = find(served, query, [], 10, ["long"], [])
    assert answers == []
    assert "empty" in view
    assert 'role="alert"' in view


@pytest.mark.parametrize("condition", ["nonsense", "year>=2000; yaer", "<script>x</script>"])
def test_filters_that_cannot_be_read_are_told_so(served, condition):
    _, (view,) = find(served, "tide", [condition], 10, ["long"], [])
    assert 'role="alert"' in view
    assert html.escape(condition.split(";")[-1].strip()) in view
    assert_harmless(view)


def assert_harmless(view):
    """Every tag is one of ours, no attribute begins with on, and nothing is left for a template to fill."""
    tags = re.findall(r"<\s*/?\s*([a-zA-Z!]+)([^>]*)>", view)
    assert {name for name, _ in tags} <= OURS
    assert not any(re.search(r"\bon\w+\s*=", attributes) for _, attributes in tags)
    assert not re.search(r"[${}`]", view)
    assert "\0" not in view


def test_hits_are_escaped_and_marked(served):
    _, (view,) = find(served, "tide script window", ["year=2001"], 50, ["long"], [])
    assert_harmless(view)
    assert "&lt;script&gt;" in view.replace("<u>", "").replace("</u>", "")
    assert "<u>tide</u>" in view
    shown = html.unescape(re.sub(r"<[^>]+>", "", view))
    assert HOSTILE[1] + HOSTILE[2] + HOSTILE[3] + " tide" in shown


def test_two_models_side_by_side_and_unknown_ones(served):
    answers, views = find(served, "tide", [], 3, ["long", "short", "long"], [])
    assert [answer.source for answer in answers] == ["long", "short"]
    assert answers[0].hits != answers[1].hits
    assert "long: 3 hits" in views[0]
    assert "short: 3 hits" in views[1]
    _, (view,) = find(served, "tide", [], 3, ["<i>none</i>"], [])
    assert "&lt;i&gt;none" in view
    answers, _ = find(served, "tide", [], 3, [], [])
    assert answers[0].source == "long"
    for names in ([], ["a", "a"]):
        with pytest.raises(InputError):
            SearchSession([Source(name, None, None) for name in names])


def test_a_filter_on_a_column_of_one_source_alone():
    encoder = WordEncoder()
    texts, _ = topic_texts()
    plain = topic_index(encoder=encoder, texts=texts, metadata=[{"other": 1} for _ in texts])
    sources = [Source("dated", topic_index(encoder=encoder), encoder), Source("plain", plain, encoder)]
    answers, views = find(SearchSession(sources), "tide", ["year>=2000"], 3, ["dated", "plain"], [])
    assert [len(answer.hits) for answer in answers] == [3, 0]
    assert "plain: 0 hits" in views[1]
    assert "no document has a value in the column &#x27;year&#x27;" in views[1]


def test_documents_similar_to_a_hit(served):
    last, _ = find(served, "tide ship", [], 4, ["long", "short"], [])
    wanted = last[0].hits[1]
    clicked = json.dumps(["long", str(wanted.id), 0])
    (answer, other), views = find_similar(served, clicked, ["year>=2000"], 4, last)
    assert answer.hits == served.sources["long"].index.similar(wanted.id, 4, filter={"year": {">=": 2000}})
    assert wanted.id not in [hit.id for hit in answer.hits]
    assert answer.query == wanted.text
    assert f"long: 4 hits similar to “{wanted.text}”" in views[0]
    assert other.hits == last[1].hits
    assert "similar to “" not in views[1]
    assert_harmless("".join(views))
    named = replace(answer, hits=[replace(wanted, own={"id": "talk-7"})])
    assert f'data-similar="{wanted.id}"' in answer_html(named)
    for clicked, words in (
        (json.dumps(["long", "5000000", 0]), "no document"),
        (json.dumps(["<i>", "3", 0]), "no index"),
    ):
        answers, (view,) = find_similar(served, clicked, [], 4, last)
        assert answers == []
        assert words in view
        assert_harmless(view)
    for clicked in ("", "null", "[]", '["long", "x", 0]', '["long", null, 0]', "{"):
        assert find_similar(served, clicked, [], 4, last)[0] == last


def test_long_hits_unfold_and_end(served):
    answer = served.answer("long", "tide", k=1)
    long = replace(answer.hits[0], text="ab " * 300 + "cd " * 20_000)
    view = answer_html(replace(answer, hits=[long]))
    assert "<details>" in view
    assert not re.search(r"#1\b|>id ", view)
    assert len(view) < 25_000


def test_filters_are_offered_that_find_documents(served):
    columns = served.filters("long")
    assert set(columns) == {"topic", "year", "date", "number"}
    assert set(columns["topic"]) >= {"topic=sea", "topic=kitchen", "topic=space"}
    assert "year=2001" in columns["year"]
    for conditions in columns.values():
        for condition in conditions:
            assert served.answer("long", "tide", filter=condition).hits
    offered, help = offers([columns, {"colour": [], "topic": ["topic=red"]}])
    assert offered[:1] + offered[-1:] == [columns["topic"][0], columns["number"][-1]]
    assert "topic=red" in offered
    assert "topic, year, date, number, colour" in help
    assert offers([{}])[0] == []


def test_offered_conditions_are_quoted_where_they_must_be():
    values = ["a;b", "=x", "  ", "x" * 80, "plain", "12", 12, True, 2.5, ["one", "two"], {"a": 1}, None]
    metadata = [{"what": value, "number": i} for i, value in enumerate(values * 3)]
    index = topic_index(texts=[f"text {i}" for i in range(len(metadata))], metadata=metadata)
    filters = SearchSession([Source("one", index, WordEncoder())]).filters("one")
    plain = ["what=12", "what=2.5", "what=one", "what=plain", "what=true", "what=two"]
    assert filters["what"] == sorted([*plain, 'what="  "', 'what="=x"', 'what="a;b"'])
    for condition in filters["what"]:
        assert index.count(condition) >= 3, condition
    assert filters["number"] == []


def test_examples_are_titles_or_first_sentences_of_documents(served):
    examples = served.examples("long")
    texts = [hit.text for hit in served.sources["long"].index.get([3 + 7 * i for i in range(181)])]
    assert len(set(examples)) == 4
    assert set(examples) <= set(texts)
    texts = ["Too long " * 40, "A first sentence. A second.", "short", "The rest of it"]
    metadata = [{}, {}, {}, {"title": "A title of <b>a document</b>"}]
    session = SearchSession([Source("one", topic_index(texts=texts, metadata=metadata), WordEncoder())])
    assert session.examples("one") == ["A first sentence.", "A title of <b>a document</b>"]
    view = render("examples", [*session.examples("one"), HOSTILE[1]])
    assert_harmless(view)
    assert 'data-query="A first sentence."' in view
    assert "try" not in render("examples", [])


def test_the_map_shows_the_hits_of_the_first_source(served):
    answers, _ = find(served, "tide ship", [], 4, ["long", "short"], [])
    counted = []
    served._maps.clear()
    view = show_map(served, ["long"], answers, lambda at, unit: counted.append(at))
    done, total = counted[-1]
    assert done == total == len(served.sources["long"].index)
    assert_harmless(view)
    assert view.count('class="hit"') == 4
    assert view.count("<circle") == 181 + 4
    assert 'class="hit"' not in show_map(served, ["short"], answers[:1])
    layout = served.map("long")
    assert layout is served.map("long")
    vectors = served.sources["long"].encoder.encode_document([hit.text for hit in answers[0].hits])
    with pytest.MonkeyPatch.context() as patched:  # the hits are placed on the map that is drawn
        patched.setattr(served, "map", lambda *_: pytest.fail("another map"))
        np.testing.assert_array_equal(served.places(answers[0], layout), layout.place(unit_vectors(vectors)))
    assert map_svg(layout).count('class="name"') == len(layout.names)


# ------------------------------------------------------------------ who is let in


def request(guard, path="/", query="", method="GET", **headers):
    """Status and headers of the answer; 200 where the page itself was reached."""
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    answer = TestClient(guard).request(method, f"{path}?{query}", headers=fields)
    return answer.status_code, answer.headers


page = Response("the page")


def test_only_loopback_names_reach_a_page_on_loopback():
    guard = PageGate(page, "127.0.0.1")
    for host in ("localhost:7860", "127.0.0.1", "[::1]:80"):
        assert request(guard, host=host)[0] == 200
    for host in ("evil.example", "127.0.0.1.evil.example:7860", "", "[", "localhost@evil.example"):
        assert request(guard, host=host)[0] == 421
    assert request(PageGate(page, "0.0.0.0"), host="server.example")[0] == 200
    assert is_loopback("::1")
    assert not is_loopback("example.org")


def test_a_token_is_asked_for_and_kept_as_a_cookie():
    guard = PageGate(page, "127.0.0.1", "secret-token")
    for query, cookie in (("", ""), ("token=wrong", ""), ("token=secret-token\u00fc", ""), ("", f"{COOKIE}=wrong")):
        assert request(guard, host="localhost", query=query, cookie=cookie)[0] == 401
        assert request(guard, "/gradio_api/info", host="localhost", query=query, cookie=cookie)[0] == 401
    status, headers = request(guard, host="localhost", query="token=secret-token")
    assert status == 200
    assert headers["set-cookie"] == f"{COOKIE}=secret-token; HttpOnly; SameSite=Strict; Path=/"
    status, headers = request(guard, host="localhost", cookie=f"other=1; {COOKIE}=secret-token")
    assert status == 200
    assert "set-cookie" not in headers
    assert "default-src 'self'" in headers["content-security-policy"]


def test_only_queries_are_taken_and_only_from_the_page_itself():
    guard = PageGate(page, "127.0.0.1")
    queue = {"host": "localhost:7860", "path": "/gradio_api/queue/join", "method": "POST", "content_length": "100"}
    own = {"origin": "http://localhost:7860"}
    for headers in ({}, own, {**own, "sec_fetch_site": "same-origin"}):
        assert request(guard, **queue, **headers)[0] == 200
    for origin in ("http://evil.example", "null", "http://localhost:7861", "http://evil.example/localhost:7860"):
        assert request(guard, **queue, origin=origin)[0] == 403
        assert request(guard, **queue, origin=origin, sec_fetch_site="cross-site")[0] == 403
    assert request(guard, **queue, **own, sec_fetch_site="same-site")[0] == 403
    for length in ("100000000", "", "-1", "1e3"):
        assert request(guard, **{**queue, "content_length": length})[0] == 413
    for path in ("/gradio_api/upload", "/upload", "/gradio_api/file=/etc/passwd", "/login", "/gradio_api/queue/joined"):
        assert request(guard, **{**queue, "path": path})[0] == 405
    assert request(guard, **{**queue, "method": "PUT"})[0] == 405


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_file_of_a_token_in_any_encoding(tmp_path, encoding):
    (tmp_path / "token").write_text("secret\nmore\n", encoding=encoding)
    assert read_token(str(tmp_path / "token"), "NO_SUCH_VARIABLE") == "secret"


def test_websockets_are_guarded_too():
    import asyncio

    sent = []

    async def send(message):
        sent.append(message)

    scope = {"type": "websocket", "query_string": b"", "headers": [(b"host", b"localhost")]}
    asyncio.run(PageGate(page, "127.0.0.1", "secret-token")(scope, None, send))
    assert sent == [{"type": "websocket.close", "code": 1008}]


@pytest.mark.parametrize("token", ["short", "with spaces in it", "ümlautümlaut", "semi;colon;semi", ""])
def test_tokens_that_no_cookie_carries_are_refused(token):
    with pytest.raises(InputError, match="token"):
        check_token(token)


def test_the_page_is_built_with_no_analytics_and_no_footer():
    pytest.importorskip("gradio")
    from contrastive_st.serve.page import build_page, import_gradio, page_options

    encoder = WordEncoder()
    import_gradio()
    built = build_page(SearchSession([Source("one", topic_index(encoder=encoder), encoder)]))
    assert built.analytics_enabled is False
    options = page_options()
    assert options["footer_links"] == []
    assert "http" not in str(options["theme"]._stylesheets)


def test_without_its_extra_the_page_says_what_to_install(monkeypatch, capsys):
    for name in [
        name for name in sys.modules if name.startswith("contrastive_st.serve.") and not name.endswith(".cli")
    ]:
        monkeypatch.delitem(sys.modules, name)
    for name in ("gradio", "starlette", "starlette.exceptions"):
        monkeypatch.setitem(sys.modules, name, None)
    assert main(["serve"]) == 2
    assert capsys.readouterr().err == f"error: the page needs starlette, gradio; {install('app')}\n"
