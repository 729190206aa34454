"""The page on which nodes are divided over pools by hand, in a browser."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser.conftest import Open
from tests.browser.ui_server import SNAPSHOT, UiServer, serve_ui

if TYPE_CHECKING:
    from playwright.sync_api import Locator, ViewportSize

    from tests.browser.seen import Seen

DESK: "ViewportSize" = {"width": 1280, "height": 1000}
PHONE: "ViewportSize" = {"width": 320, "height": 740}
"""The narrowest that has to do (WCAG 2.2, 1.4.10)."""
READABLE = 4.5
"""Contrast of text, at least (WCAG 2.2, 1.4.3)."""
NAMES = ("inference (cgpu)", "notebooks (cgpu)", "training (cgpu)", "in no pool")


@pytest.fixture
def seen(shown: UiServer, open_page: Open) -> "Seen":
    return open_it(shown, open_page, viewport=DESK)


def open_it(shown: UiServer, open_page: Open, **context: Any) -> "Seen":
    """Open the page, and wait for its first answer."""
    seen = open_page(f"{shown.url}split.html", **context)
    seen.page.locator("#answer h2").wait_for()
    return seen


def find_slider(seen: "Seen", name: str) -> "Locator":
    return seen.page.get_by_role("slider", name=name)


def read_sizes(seen: "Seen") -> list[int]:
    return [int(find_slider(seen, name).input_value()) for name in NAMES]


def expect_cells(seen: "Seen", pool: str, *cells: str) -> None:
    """The pool's row has these texts in it, within a while."""
    row = seen.page.get_by_role("row").filter(
        has=seen.page.get_by_role("rowheader", name=pool, exact=True)
    )
    for cell in cells:
        seen.expect_text(row.first, cell)


def test_it_is_found_from_the_pools_and_leads_back(shown: UiServer, open_page: Open) -> None:
    page = open_page(shown.url).page
    page.get_by_role("link", name="What if").click()
    page.locator("#answer h2").wait_for()
    page.get_by_role("link", name="GPU pools").click()
    page.get_by_role("grid").wait_for()


def test_it_begins_with_the_split_of_today(seen: "Seen") -> None:
    assert read_sizes(seen) == [3, 3, 3, 1]
    expect_cells(seen, "training", "12", "73/180 GiB")


def test_by_keyboard_a_pool_gains_a_node_of_the_next_and_its_figures_follow(seen: "Seen") -> None:
    find_slider(seen, "notebooks").focus()
    seen.page.keyboard.press("ArrowRight")
    assert read_sizes(seen) == [3, 4, 2, 1]
    assert find_slider(seen, "notebooks").get_attribute("aria-valuetext") == "4 of 10 nodes"
    expect_cells(seen, "training", "3 → 2", "12 → 8", "73/180 GiB → 59/120 GiB")
    facts = seen.page.get_by_role("list").first
    seen.expect_text(facts, "2 running pods must go first")
    seen.expect_text(seen.page.locator("#answer"), "speech/tts")
    seen.page.get_by_text("The same in a terminal").click()
    seen.expect_text(seen.page.get_by_role("region", name="Command and YAML"), "kind: GPUSharePool")


def test_a_slider_that_is_moved_back_gives_each_pool_its_nodes_again(seen: "Seen") -> None:
    slider = find_slider(seen, "inference")
    move = "(slider, size) => { slider.value = size; slider.dispatchEvent(new Event('input')); }"
    slider.evaluate(move, 10)
    assert read_sizes(seen) == [10, 0, 0, 0]
    slider.evaluate(move, 5)
    assert read_sizes(seen) == [5, 1, 3, 1]
    slider.evaluate(move, 3)
    assert read_sizes(seen) == [3, 3, 3, 1]


def test_the_split_outlives_a_reload_and_today_is_one_button_away(seen: "Seen") -> None:
    find_slider(seen, "notebooks").fill("5")
    seen.page.reload()
    seen.page.locator("#answer h2").wait_for()
    assert read_sizes(seen) == [3, 5, 1, 1]
    seen.page.get_by_role("button", name="As it is today").click()
    assert read_sizes(seen) == [3, 3, 3, 1]


def test_an_address_that_names_no_split_of_these_nodes_shows_that_of_today(
    shown: UiServer, open_page: Open
) -> None:
    seen = open_page(f"{shown.url}split.html#nodes=no%3Dlabel&sizes=training%3A9000")
    seen.page.locator("#answer h2").wait_for()
    assert read_sizes(seen) == [3, 3, 3, 1]


def test_while_it_is_computed_the_page_says_so_and_the_newest_split_is_shown_last(
    seen: "Seen",
) -> None:
    asked: list[Any] = []

    def hold_first(route: Any) -> None:
        asked.append(route)
        if len(asked) > 1:
            route.continue_()

    seen.page.route("**/split?*", hold_first)
    slider = find_slider(seen, "notebooks")
    slider.fill("4")
    seen.expect_text(seen.page.get_by_role("status"), "Computing")
    assert seen.page.locator("#answer").get_attribute("aria-busy") == "true"
    slider.fill("5")
    slider.fill("6")
    asked[0].continue_()
    expect_cells(seen, "notebooks", "3 → 6")
    seen.expect_text(seen.page.get_by_role("status"), "Computed")
    assert len(asked) == 2


def test_a_refusal_is_shown_as_a_sentence_and_what_was_shown_stays(seen: "Seen") -> None:
    refusal = {"status": 400, "body": "a sentence of the server\n"}
    seen.page.route("**/split?*", lambda route: route.fulfill(**refusal))
    find_slider(seen, "notebooks").fill("4")
    seen.expect_text(seen.page.locator("#refusal"), "a sentence of the server")
    expect_cells(seen, "notebooks", "8/60 GiB")
    # The browser notes a refusal by itself.
    seen.complaints.clear()


def test_where_no_nodes_are_shared_it_says_why(tmp_path: Path, open_page: Open) -> None:
    cluster = json.loads(SNAPSHOT.read_text())
    del cluster["pools"][1:]
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps(cluster))
    with serve_ui("--snapshot", str(file)) as shown:
        seen = open_page(f"{shown.url}split.html")
        seen.page.get_by_text("No nodes can be divided").wait_for()
        assert seen.page.locator("#split").is_hidden()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [DESK, PHONE], ids=["desk", "phone"])
def test_every_text_of_a_split_stands_out_from_what_is_behind_it(
    shown: UiServer, open_page: Open, scheme: str, viewport: Any
) -> None:
    seen = open_it(shown, open_page, viewport=viewport, color_scheme=scheme)
    find_slider(seen, "notebooks").fill("4")
    expect_cells(seen, "notebooks", "3 → 4")
    contrasts = seen.measure_contrasts()
    assert len(contrasts) > 30
    assert [(text, ratio) for text, ratio in contrasts if ratio < READABLE] == []
    width = seen.page.evaluate("document.documentElement.scrollWidth")
    assert width == viewport["width"]


def test_what_a_cluster_says_of_a_split_is_never_markup(tmp_path: Path, open_page: Open) -> None:
    markup = "<img src=x onerror=alert(1)>"
    file = tmp_path / "cluster.json"
    file.write_text(SNAPSHOT.read_text().replace('"nowhere"', json.dumps(markup)))
    with serve_ui("--snapshot", str(file)) as shown:
        seen = open_it(shown, open_page)
        seen.expect_text(seen.page.locator("#answer"), markup)
        assert seen.page.locator("img").count() == 0
