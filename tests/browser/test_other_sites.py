"""What another site that is open in the same browser gets of the page: nothing, even if it had
learnt the secret."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

from tests.browser.ui_server import UiServer

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture
def attacker() -> Iterator[str]:
    """The address of an empty page on another port of this machine: for browsers the same site,
    and another origin."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<!doctype html><title>attacker</title>")

        def log_message(self, format: str, *args: object) -> None:
            """Nobody reads it."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    "way",
    [
        "document.body.append(Object.assign(document.createElement('iframe'), {src: url}))",
        "location.href = url",
    ],
    ids=["frame", "link"],
)
def test_another_site_that_leads_to_the_page_is_refused(
    shown: UiServer, attacker: str, browser: "Browser", way: str
) -> None:
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(attacker)
        with page.expect_response(shown.url) as answered:
            page.evaluate(f"url => {{ {way}; }}", shown.url)
        assert answered.value.status == 403


@pytest.mark.parametrize(
    "way",
    [
        "fetch(url, {mode: 'no-cors'})",
        "document.body.append(Object.assign(document.createElement('script'), {src: url}))",
        "document.body.append(Object.assign(document.createElement('img'), {src: url}))",
    ],
    ids=["fetch", "script", "image"],
)
def test_what_another_site_asks_for_its_own_page_is_kept_from_it(
    shown: UiServer, attacker: str, browser: "Browser", way: str
) -> None:
    """The refusal itself says that it is for no other origin, so the browser hands nothing on."""
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(attacker)
        with page.expect_event("requestfailed") as failed:
            page.evaluate(f"url => {{ {way}; }}", f"{shown.url}state")
        assert failed.value.failure == "net::ERR_BLOCKED_BY_RESPONSE.NotSameOrigin"


def test_a_name_of_an_attacker_s_that_leads_here_is_refused(
    shown: UiServer, browser: "Browser"
) -> None:
    """DNS rebinding: browsers resolve every name below localhost to this machine by themselves."""
    with browser.new_context() as context:
        page = context.new_page()
        answer = page.goto(shown.url.replace("127.0.0.1", "attacker.localhost"))
        assert answer is not None
        assert answer.status == 421
        assert "inference" not in page.content()
