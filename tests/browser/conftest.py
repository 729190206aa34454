"""The browser of these tests, and the pages in it."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from devcluster.chromium import find_chromium
from tests.browser.ui_server import SNAPSHOT, UiServer, serve_ui

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.browser.seen import Seen

Open = Callable[..., "Seen"]


@pytest.fixture(scope="module")
def shown() -> Iterator[UiServer]:
    """The page of the snapshot."""
    with serve_ui("--snapshot", str(SNAPSHOT)) as shown:
        yield shown


@pytest.fixture(scope="session")
def browser() -> Iterator["Browser"]:
    """Chromium; a user without it sees these tests skipped, and CI a failure."""
    pytest.importorskip(
        "playwright", reason="Playwright is not installed; make test-browser installs it"
    )
    chromium = find_chromium(os.environ)
    if chromium is None:
        pytest.skip("there is no Chromium here; `python -m devcluster browser` says how to get one")
    from playwright.sync_api import sync_playwright

    from tests.browser.browsing import start_browser

    with sync_playwright() as playwright, start_browser(playwright, chromium) as browser:
        yield browser


@pytest.fixture
def open_page(browser: "Browser") -> Iterator[Open]:
    """Opens pages, and holds at the end that each asked nobody but its own server for anything, and
    had nothing to complain of."""
    from tests.browser.seen import Seen

    with ExitStack() as stack:
        opened: list[Seen] = []

        def open_it(url: str, **context: Any) -> Seen:
            made = stack.enter_context(browser.new_context(**context))
            opened.append(Seen(made.new_page(), url))
            return opened[-1]

        yield open_it
        for seen in opened:
            assert seen.strangers == []
            assert seen.complaints == []
