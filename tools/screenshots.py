"""`python -m tools.screenshots FOLDER` draws the web page's pictures from a fixed snapshot."""

import os
import sys
from pathlib import Path
from typing import Literal

from playwright.sync_api import sync_playwright

from devcluster.chromium import ensure_chromium
from tests.browser.browsing import start_browser
from tests.browser.ui_server import SNAPSHOT, serve_ui

WIDTH, HEIGHT = 1280, 1010
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")


def main(folder: Path) -> None:
    """Write page-light.png and page-dark.png into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    chromium = ensure_chromium(os.environ)
    with (
        serve_ui("--snapshot", str(SNAPSHOT)) as shown,
        sync_playwright() as playwright,
        start_browser(playwright, chromium) as browser,
    ):
        for scheme in SCHEMES:
            page = browser.new_page(
                viewport={"width": WIDTH, "height": HEIGHT},
                color_scheme=scheme,
                timezone_id="UTC",
                locale="en-GB",
            )
            page.goto(shown.url)
            page.get_by_role("rowheader").first.wait_for()
            page.screenshot(path=folder / f"page-{scheme}.png")
            page.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
