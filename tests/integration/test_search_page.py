"""The page in a real browser, before the real server: headless Chromium, where one is installed."""

import csv
import importlib.util
import os
import shutil
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import torch
from refusals import error_of
from small_checkpoints import tiny_bert
from store_places import store_place
from warm_python import python_with_package

from conftest import SENTENCES, save_both
from contrastive_st import BertForCL
from contrastive_st.cli import main

GRADIO = importlib.util.find_spec("gradio")  # not imported: only the server is to do that, which takes seconds
pytestmark = [pytest.mark.slow, pytest.mark.skipif(GRADIO is None, reason="the page needs the extra app")]
HOSTILE = (
    "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'> ${window.hacked = 1} "
    "{{window.hacked = 1}} \"quoted\" 'town' 😀"
)
QUERY = "#query input, #query textarea"


@pytest.fixture(scope="module")
def shards(tokenizer, tmp_path_factory):
    """Two folders of the same documents, encoded by two models."""
    folder = tmp_path_factory.mktemp("page")
    with open(folder / "corpus.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "source"])
        writer.writerows([text, "odd" if i % 2 else "even"] for i, text in enumerate([*SENTENCES, HOSTILE]))
    config = tiny_bert(tokenizer, num_hidden_layers=2)
    for seed, name in enumerate(("first", "second")):
        torch.manual_seed(seed)
        save_both(BertForCL(config, pooling="mean"), tokenizer, folder / f"{name}-model")
        assert main(["index", str(folder / "corpus.csv"), "-m", str(folder / f"{name}-model"),
                     "-o", str(folder / name), "--precision", "fp32"]) == 0  # fmt: skip
    return [str(folder / name) for name in ("first", "second")]


@pytest.fixture(scope="module")
def address(shards):
    yield from started("serve", *shards, "--port", "0")


def command(*arguments):
    """A command of the package, in a process that has imported gradio."""
    return [python_with_package("gradio", "contrastive_st.serve.page"), "-m", "contrastive_st.cli", *arguments]


def started(*arguments):
    """The address that a server prints, and the server stopped at the end."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command(*arguments), stdout=subprocess.PIPE, text=True, env=environment)
    try:
        line = process.stdout.readline().strip()
        assert line.startswith("http://127.0.0.1:"), line
        yield line
    finally:
        process.terminate()
        process.wait(30)


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="the browser test needs playwright")
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    path = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    if path is None:
        pytest.skip("no Chromium is installed (apt-get install chromium); $CHROMIUM names another")
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield chromium.new_context(viewport={"width": 1280, "height": 900})  # one cache for the scripts of all pages
        chromium.close()


@pytest.fixture
def page(browser, address):
    """The page, loaded; at the end it has run no script of others, logged no error and called nobody else."""
    page = browser.new_page()
    called, errors = [], []
    page.on("request", lambda request: called.append(request.url))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.goto(address)
    page.wait_for_selector(QUERY, timeout=60_000)
    page.wait_for_function("document.activeElement.closest('#query')", timeout=60_000)  # the cursor is in it
    yield page
    assert page.evaluate("window.hacked") is None
    assert errors == []
    assert all(url.startswith((address, "data:", "blob:")) for url in called), called
    page.close()


def search(page, text, waits_for=".hits .score"):
    page.locator(QUERY).fill(text)
    page.locator(QUERY).press("Enter")
    page.wait_for_selector(waits_for, timeout=60_000)


def test_type_enter_and_read(page):
    page.keyboard.type("a cat and a dog")
    page.keyboard.press("Enter")
    page.wait_for_selector(".hits .score", timeout=60_000)
    hits = page.locator(".hits > li")
    assert hits.count() == 9
    assert "a cat and a dog" in hits.first.inner_text()
    scores = [float(score) for score in page.locator(".hits .score").all_inner_texts()]
    assert scores[0] > 0.999
    assert scores == sorted(scores, reverse=True)
    assert "encode" in page.locator(".times").first.inner_text()
    assert "query" in page.locator(".times").first.inner_text()
    assert {"cat", "dog"} <= set(hits.first.locator("u").all_inner_texts())
    legend = page.locator(".legend")
    assert legend.bounding_box()["y"] > hits.last.bounding_box()["y"]
    assert "#1" not in page.locator(".hits").inner_text()


def test_the_keyboard_goes_everywhere(page):
    stops = ("Search", "first", "Also by words", "Map")
    for text in stops:  # the page shows its parts one after another, and Tab passes what is not there yet
        page.get_by_text(text, exact=False).first.wait_for(timeout=60_000)
    seen = []
    while len(seen) < 40 and not any("Map" in text for text in seen):
        page.keyboard.press("Tab")
        seen.append(
            page.evaluate(
                "(document.activeElement.closest('label, button') || document.activeElement).innerText.trim()"
            )
        )
    assert seen[0] == "Search"
    order = [[i for i, text in enumerate(seen) if stop in text] for stop in stops]
    assert all(order), seen
    assert [first for first, *_ in order] == sorted(first for first, *_ in order)
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.closest('[id]').id") == "query"


def test_filter_and_its_errors(page):
    page.locator("#filter input").click()  # what the column holds is offered
    page.get_by_role("option", name="source=odd").click()
    search(page, "the old town")
    assert page.locator(".hits > li").count() == 4
    assert all("odd" in text for text in page.locator(".hits .meta").all_inner_texts())
    page.locator("#filter input").click()
    page.keyboard.type("nonsense & more")  # and others can be typed; each searches anew
    page.keyboard.press("Enter")
    page.wait_for_selector("[role=alert]", timeout=60_000)
    assert "nonsense & more" in page.locator("[role=alert]").inner_text()


def test_an_example_searches_and_a_hit_is_copied_and_leads_to_similar_ones(page, address):
    page.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=address.rstrip("/"))
    assert page.locator(".legend").count() == 0
    example = page.locator(".examples button").nth(1)
    text = example.inner_text()
    assert text in SENTENCES
    example.click()
    page.wait_for_selector(".hits .score", timeout=60_000)
    assert page.locator(QUERY).input_value() == text
    hit = page.locator(".hits > li").nth(1)
    other = hit.locator(".text").inner_text()
    hit.get_by_role("button", name="Copy").click()
    page.wait_for_selector("button:has-text('Copied')")
    assert page.evaluate("navigator.clipboard.readText()") == other
    for _ in range(2):  # the second time from a hit of the first
        other = page.locator(".hits > li").nth(1).locator(".text").inner_text()
        page.locator(".hits > li").nth(1).get_by_role("button", name="Similar to this").click()
        page.wait_for_selector(f".headline:has-text('{other[:20]}')", timeout=60_000)
        page.wait_for_selector(".hits .score", timeout=60_000)
        assert other not in page.locator(".hits .text").all_inner_texts()
        assert page.locator(".hits > li").count() == 8


def test_a_phone_shows_everything_within_its_width(browser, address):
    page = browser.new_page()
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(address)
    page.wait_for_selector(".examples button", timeout=60_000)
    search(page, "a cat and a dog")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert all(
        button.bounding_box()["x"] + button.bounding_box()["width"] <= 390
        for button in page.locator(".hits button").all()
    )
    page.close()


def test_every_setting_searches_again_and_two_models_are_side_by_side(page):
    search(page, "she reads a long book")
    page.get_by_label("Hits", exact=True).fill("3")
    page.wait_for_function("document.querySelectorAll('.hits > li').length == 3", timeout=60_000)
    page.get_by_label("second").check()
    page.wait_for_function("document.querySelectorAll('.hits > li').length == 6", timeout=60_000)
    page.wait_for_selector(".hits .score", timeout=60_000)
    left, right = page.locator(".hits").all()
    assert left.bounding_box()["x"] + left.bounding_box()["width"] <= right.bounding_box()["x"]
    tops = [pane.locator("li").first.inner_text() for pane in (left, right)]
    assert all("she reads a long book" in top for top in tops)
    assert left.inner_text() != right.inner_text()


def test_hostile_queries_and_documents_run_nothing(page):
    search(page, HOSTILE)
    shown = page.locator(".hits").inner_text()
    assert "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'> ${window.hacked = 1}" in shown
    assert page.locator(".hits script, .hits img").count() == 0


def test_the_map(page):
    search(page, "rain fell on the old town")
    page.get_by_role("tab", name="Map").click()
    page.wait_for_selector("#map svg.map", timeout=120_000)
    assert page.locator("#map .hit").count() == 9
    assert page.locator("#map circle").count() == 18
    assert "rain fell" in page.locator("#map .notice").inner_text()


def test_sigterm_stops_the_database_too(shards):
    with store_place() as place:
        assert main(["index", shards[0], "--store", str(place)]) == 0
        model = shards[0] + "-model"
        for _ in started("serve", "--store", str(place), "-m", model, "--port", "0"):
            assert (place / "pgdata" / "postmaster.pid").exists()
        assert not (place / "pgdata" / "postmaster.pid").exists()


def test_a_token_closes_every_door_and_is_not_in_the_list_of_processes(shards, tmp_path, capsys):
    token = "a-token-of-my-own"
    (tmp_path / "token").write_text(f"{token}\n")
    for address in started("serve", shards[0], "--port", "0", "--token_file", str(tmp_path / "token")):
        base, given = address.split("?token=")
        assert given == token
        for path in ("", "config", "gradio_api/info", f"?token={token[:-1]}"):
            with pytest.raises(urllib.error.HTTPError, match="401"):
                urllib.request.urlopen(base + path)
        with urllib.request.urlopen(address) as answer:
            cookie = answer.headers["Set-Cookie"].split(";")[0]
        with urllib.request.urlopen(urllib.request.Request(base + "config", headers={"Cookie": cookie})) as answer:
            assert answer.status == 200
        commands = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
        assert not any(token.encode() in command for command in commands)
    assert main(["serve", f"--token={token}", shards[0]]) == 2  # which could be read in that list
    assert "ignored explicit argument" in capsys.readouterr().err


def test_bad_arguments_are_one_line(shards, capsys):
    for arguments in (
        [*shards, "-m", "a"],
        ["/no/such/folder", "--store", "/no/such/store"],
        [shards[0], "--token_file", "/no/such/file"],
    ):
        assert error_of(capsys, "serve", *arguments)
