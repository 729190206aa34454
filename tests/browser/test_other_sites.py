"""What another site that is open in the same browser gets of the page: nothing, even if it had
learnt the secret."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.browser.ui_server import UiServer
from tests.kit.http_page import served_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture
def attacker(browser: "Browser") -> Iterator["Page"]:
    """An empty page on another port of this machine, opened: for browsers the same site, and
    another origin."""
    empty = served_page("<!doctype html><title>attacker</title>", "text/html")
    with empty as port, browser.new_context() as context:
        page = context.new_page()
        page.goto(f"http://127.0.0.1:{port}/")
        yield page


def test_another_site_that_leads_to_the_page_is_refused(shown: UiServer, attacker: "Page") -> None:
    with attacker.expect_response(shown.url) as answered:
        attacker.evaluate("url => { location.href = url; }", shown.url)
    assert answered.value.status == 403


def test_what_another_site_asks_for_its_own_page_is_kept_from_it(
    shown: UiServer, attacker: "Page"
) -> None:
    """The refusal itself says that it is for no other origin, so the browser hands nothing on."""
    with attacker.expect_event("requestfailed") as failed:
        attacker.evaluate("url => { fetch(url, {mode: 'no-cors'}); }", f"{shown.url}state")
    assert failed.value.failure == "net::ERR_BLOCKED_BY_RESPONSE.NotSameOrigin"
