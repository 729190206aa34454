"""A browser for tests."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, Playwright

from devcluster.chromium import Chromium


@contextmanager
def start_browser(playwright: Playwright, chromium: Chromium) -> Iterator[Browser]:
    """Chromium without a window, for a block."""
    browser = playwright.chromium.launch(
        executable_path=chromium.program, env={**chromium.build_environment(os.environ)}
    )
    try:
        yield browser
    finally:
        browser.close()
