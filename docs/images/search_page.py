"""The picture of the search page: two models side by side. Needs Chromium, playwright.

python docs/images/search_page.py shards/static shards/one-layer
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


def main(first: str, second: str) -> None:
    """Write the picture beside this file."""
    path = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        with opened(browser, first, second, height=1000) as page:
            page.get_by_label(Path(second).name, exact=True).check()
            page.locator("#filter input").fill("year>=2021")
            search(page, "which animals came back")
            page.screenshot(path=HERE / "search_page.png")


if __name__ == "__main__":
    main(*sys.argv[1:])
