"""The page at 5,000 nodes: only what is in view is drawn."""

import json
import time
from collections.abc import Iterator

import pytest

from tests.browser.conftest import Open
from tests.browser.ui_server import SNAPSHOT, Json, UiServer, serve_ui

NODES = 5000
PATTERN = "cn-beijing.10.0.1.22"
PODS = ("gpushare-device-plugin-ds-pdp9q", "serve-8")
"""Of the pattern's pods those that are repeated: more of them are read, and nothing else."""
MOST_DRAWN = 60
WITHIN_SECONDS = 8.0
"""From the address to the first rows, on a busy machine; an idle one takes a second."""


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UiServer]:
    file = tmp_path_factory.mktemp("many") / "cluster.json"
    file.write_text(json.dumps(multiply(json.loads(SNAPSHOT.read_text()))))
    with serve_ui("--snapshot", str(file)) as shown:
        yield shown


def multiply(cluster: Json) -> Json:
    """The cluster with 5,000 nodes more that are as one of its own, with two of its pods."""
    (node,) = (each for each in cluster["nodes"] if each["metadata"]["name"] == PATTERN)
    pods = [pod for pod in cluster["pods"] if pod["metadata"]["name"] in PODS]
    own = [each["metadata"][key] for each in (node, *pods) for key in ("uid", "name")]
    # Much quicker than copies of what is in it.
    text = json.dumps([node, *pods]).replace(PATTERN, "many")
    for number in range(NODES):
        again = text.replace('"many"', f'"many-{number:04}"')
        for word in own:
            again = again.replace(f'"{word}"', f'"{word}-{number:04}"')
        more = json.loads(again)
        cluster["nodes"].append(more[0])
        cluster["pods"] += more[1:]
    return cluster


def test_5000_nodes_are_there_at_once_and_only_some_of_them_are_drawn(
    shown: UiServer, open_page: Open
) -> None:
    started = time.monotonic()
    seen = open_page(shown.url)
    seen.row("inference").wait_for()
    took = time.monotonic() - started

    assert seen.page.locator("#count").inner_text() == "5,010 nodes"
    assert took < WITHIN_SECONDS
    assert 0 < seen.rows.count() <= MOST_DRAWN

    seen.page.locator("#view").evaluate("view => view.scrollTo(0, 2500 * 56)")
    seen.page.get_by_text("many-2495").wait_for()
    assert seen.rows.count() <= MOST_DRAWN


def test_a_row_that_is_scrolled_away_keeps_the_focus(shown: UiServer, open_page: Open) -> None:
    seen = open_page(shown.url)
    seen.row("inference").click()
    seen.page.locator("#view").evaluate("view => view.scrollTo(0, 100000)")
    seen.page.get_by_text("many-1790").wait_for()
    assert seen.focused() == "inference"
    seen.page.keyboard.press("ArrowDown")
    assert seen.focused() == "cn-beijing.10.0.1.21"
