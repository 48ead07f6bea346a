"""The pictures of the search page: two models side by side, and the map of a third index. Needs Chromium, playwright.

python docs/images/search_page.py shards/static shards/one-layer shards/docs
"""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

HERE = Path(__file__).parent


@contextmanager
def opened(browser: Any, *indices: str, height: int) -> Iterator[Any]:
    """The page of these indices, in a window of that height."""
    command = [sys.executable, "-m", "contrastive_st.cli", "serve", *indices, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout
        page = browser.new_page(viewport={"width": 1280, "height": height})
        try:
            page.goto(server.stdout.readline().strip())
            page.wait_for_selector(".examples", timeout=120_000)
            yield page
        finally:
            page.close()
            server.terminate()


def search(page: Any, query: str) -> None:
    """Search, and wait for the hits."""
    page.locator("#query input, #query textarea").fill(query)
    page.keyboard.press("Enter")
    page.wait_for_selector(".hits .score", timeout=120_000)
    page.wait_for_timeout(1000)  # for those of the other index


def main(first: str, second: str, documents: str) -> None:
    """Write both pictures beside this file."""
    path = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        with opened(browser, first, second, height=1000) as page:
            page.get_by_label(Path(second).name, exact=True).check()
            page.locator("#filter input").fill("year>=2021")
            search(page, "which animals came back")
            page.screenshot(path=HERE / "search_page.png")
        with opened(browser, documents, height=1180) as page:
            search(page, "make sequences of different lengths fit one batch")
            page.get_by_role("tab", name="Map").click()
            page.wait_for_selector("#map svg.map", timeout=300_000)
            page.screenshot(path=HERE / "search_page_map.png")


if __name__ == "__main__":
    main(*sys.argv[1:])
