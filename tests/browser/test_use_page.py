"""The page in a browser beside a Prometheus: what pods use is shown within what they hold."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpushare.analysis.usage.exporters import EXPORTERS
from tests.browser.conftest import Open
from tests.browser.ui_server import SNAPSHOT, UiServer, serve_ui
from tests.kit.prometheus_double import PrometheusDouble, answering_prometheus

if TYPE_CHECKING:
    from playwright.sync_api import ViewportSize

    from tests.browser.seen import Seen

HAMI, DCGM = EXPORTERS[0], EXPORTERS[-1]
GIB, MIB_PER_GIB = 2**30, 1024
TALL: "ViewportSize" = {"width": 1280, "height": 1600}
PHONE: "ViewportSize" = {"width": 320, "height": 740}
READABLE = 4.5
"""Contrast of text, at least (WCAG 2.2, 1.4.3)."""
SHARED, KNOWN, BEYOND, CARD, OUTSIDE = (
    f"cn-beijing.10.0.1.{number}" for number in (13, 12, 32, 23, 41)
)
_CONTRASTS_OF_BLOCKS = """() => {
  const channel = (value) =>
    value / 255 <= 0.03928 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4;
  const luminance = (color) => {
    const [r, g, b] = color.match(/[\\d.]+/g).map(Number);
    return 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b) + 0.05;
  };
  return [...document.querySelectorAll(".used")].map((used) => {
    const text = luminance(getComputedStyle(used.nextElementSibling).color);
    const back = luminance(getComputedStyle(used).backgroundColor);
    return Math.max(text, back) / Math.min(text, back);
  });
}"""
"""Contrast of each name with the used part of its block."""


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The snapshot, and a pod that holds the whole card of a node in no pool."""
    cluster = json.loads(SNAPSHOT.read_text())
    (pattern,) = (pod for pod in cluster["pods"] if pod["metadata"]["name"] == "tts")
    pod = json.loads(json.dumps(pattern).replace(SHARED, OUTSIDE))
    pod["metadata"] |= {"name": "whole", "uid": "whole", "annotations": {}}
    (container,) = pod["spec"]["containers"]
    cards = {"nvidia.com/gpu": "1"}
    container["resources"] = {"limits": cards, "requests": cards}
    cluster["pods"].append(pod)
    file = tmp_path_factory.mktemp("use") / "cluster.json"
    file.write_text(json.dumps(cluster))
    return file


@pytest.fixture(scope="module")
def prometheus() -> Iterator[PrometheusDouble]:
    with answering_prometheus() as double:
        used = {"speech/tts": 3.4, "vision/detector": 2.0, "speech/asr-large": 0.0}
        used["notebooks/jupyter-9c"] = 5.2
        double.report(HAMI, {pod: gib * GIB for pod, gib in used.items()})
        double.report(DCGM, dict.fromkeys(("speech/whole", "vision/embed"), 12.5 * MIB_PER_GIB))
        yield double


@pytest.fixture(scope="module")
def shown(snapshot: Path, prometheus: PrometheusDouble) -> Iterator[UiServer]:
    with serve_ui("--snapshot", str(snapshot), "--prometheus", prometheus.url) as shown:
        yield shown


@pytest.fixture
def seen(shown: UiServer, open_page: Open) -> "Seen":
    """The page, once it knows what is used."""
    seen = open_page(shown.url, viewport=TALL)
    seen.expect_text(seen.row(KNOWN), "used 2")
    return seen


def read_card(seen: "Seen", node: str, card: int = 0) -> str:
    text: str = seen.row(node).locator(".card p").nth(card).text_content() or ""
    return text


def test_beside_what_is_asked_stands_what_is_used_and_what_is_unknown_is_never_zero(
    seen: "Seen",
) -> None:
    assert read_card(seen, KNOWN) == "0: 15/15, used 2"
    assert read_card(seen, KNOWN, 1) == "1: 10/15, used 0"
    assert read_card(seen, KNOWN, 2) == "2: 0/15"
    assert read_card(seen, SHARED) == "0: 14/15, used ≥3.4"
    assert read_card(seen, CARD) == "0: 11/15, used ?"
    assert read_card(seen, BEYOND) == "0: 4/15, used 5.2 ⚠"
    first, *_ = seen.cards(SHARED)
    assert first == (
        "GPU 0: 14 of 15 GiB allocated, used at least 3.4: "
        "speech/tts 5 (used 3.4), vision/resnet-3 9 (use unknown)"
    )
    first, *_ = seen.cards(BEYOND)
    assert "notebooks/jupyter-9c 4 (used 5.2, more than it asked for)" in first
    assert seen.page.locator("#use").is_hidden()


def test_a_block_is_filled_as_far_as_its_pod_uses_it(seen: "Seen") -> None:
    bar = seen.row(SHARED).locator(".bar").first
    tts, unknown = bar.locator(".held").all()
    block, used = tts.bounding_box(), tts.locator(".used").bounding_box()
    assert block is not None
    assert used is not None
    assert used["width"] / block["width"] == pytest.approx(3.4 / 5, abs=0.03)
    assert unknown.locator(".used").count() == 0
    assert unknown.inner_text() == "? resnet-3"

    beyond = seen.row(BEYOND).locator(".held.beyond")
    assert beyond.inner_text() == "⚠ jupyter-9c"
    seen.page.get_by_label("Only what needs attention").check()
    assert BEYOND in seen.names()


def test_details_tell_the_use_of_each_pod_and_why_it_is_not_known(seen: "Seen") -> None:
    panel = seen.page.get_by_role("complementary")

    def read(node: str) -> str:
        seen.row(node).click()
        seen.expect_text(panel, node)
        return re.sub(r"\s+", " ", panel.inner_text())

    text = read(SHARED)
    assert "GPU 0: 14/15 GiB, used at least 3.4 Pod Holds GiB Uses GiB speech/tts 5 3.4" in text
    assert "vision/resnet-3 no exporter reports it 9 unknown" in text
    assert "only its card is reported, which other pods use too 11 unknown" in read(CARD)
    assert "more than it asked for 4 ⚠ 5.2" in read(BEYOND)
    assert re.search(r"Pods with GPUs .*speech/whole \S+ 12\.5$", read(OUTSIDE))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [TALL, PHONE], ids=["desk", "phone"])
def test_every_text_stands_out_from_what_is_behind_it(
    shown: UiServer, open_page: Open, scheme: str, viewport: Any
) -> None:
    seen = open_page(shown.url, viewport=viewport, color_scheme=scheme)
    seen.page.get_by_role("searchbox", name="Node").fill("1.3")
    seen.expect_text(seen.row(BEYOND), "used 5.2")
    seen.row(BEYOND).click()
    for contrasts in (
        [ratio for _, ratio in seen.measure_contrasts()],
        seen.page.evaluate(_CONTRASTS_OF_BLOCKS),
    ):
        assert contrasts
        assert min(contrasts) >= READABLE
    assert seen.page.evaluate("document.documentElement.scrollWidth") == viewport["width"]
    tall = "rows => rows.filter(row => row.scrollHeight > row.clientHeight).length"
    assert seen.rows.evaluate_all(tall) == 0


def test_without_a_prometheus_nothing_is_said_of_use(open_page: Open) -> None:
    with serve_ui("--snapshot", str(SNAPSHOT)) as shown:
        seen = open_page(shown.url, viewport=TALL)
        seen.row(SHARED).click()
        assert read_card(seen, SHARED) == "0: 14/15"
        first, *_ = seen.cards(SHARED)
        assert first == "GPU 0: 14 of 15 GiB allocated: speech/tts 5, vision/resnet-3 9"
        panel = seen.page.get_by_role("complementary")
        assert panel.get_by_role("columnheader").all_inner_texts() == ["Pod", "Holds GiB"]
        assert seen.page.locator(".used, .measured, #use:not([hidden])").count() == 0


def test_a_prometheus_that_is_slow_is_not_waited_for(
    snapshot: Path, prometheus: PrometheusDouble, open_page: Open
) -> None:
    prometheus.may_answer.clear()
    options = ("--snapshot", str(snapshot), "--prometheus", prometheus.url)
    try:
        with serve_ui(*options) as shown:
            seen = open_page(shown.url, viewport=TALL)
            seen.row(KNOWN).wait_for()
            assert read_card(seen, KNOWN) == "0: 15/15"
            prometheus.may_answer.set()
            # Without a reload, though a snapshot never changes.
            seen.expect_text(seen.row(KNOWN), "used 2")
    finally:
        prometheus.may_answer.set()


def test_what_a_prometheus_says_in_place_of_an_answer_is_a_line_and_never_markup(
    snapshot: Path, open_page: Open
) -> None:
    markup = "<img src=x onerror=alert(1)>\u202e"
    with answering_prometheus() as prometheus:
        prometheus.status, prometheus.body = 400, {"status": "error", "error": markup}
        with serve_ui("--snapshot", str(snapshot), "--prometheus", prometheus.url) as shown:
            seen = open_page(shown.url, viewport=TALL)
            line = seen.page.get_by_role("status").filter(has_text="Use is not known")
            seen.expect_text(line, r"<img src=x onerror=alert(1)>\u202e")
            assert seen.page.locator("img").count() == 0
            assert read_card(seen, KNOWN) == "0: 15/15, used ?"
            assert seen.row(KNOWN).locator(".used").count() == 0
