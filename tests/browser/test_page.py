"""The page in a browser, of a snapshot: what it says, to whom, and that it asks nobody else."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser.conftest import Open
from tests.browser.ui_server import SNAPSHOT, Json, UiServer, serve_ui
from tests.kit.cluster.command_line import start_command
from tests.kit.histories.labelled_cluster import build_plugin_pod

if TYPE_CHECKING:
    from playwright.sync_api import ViewportSize

    from tests.browser.seen import Seen

Serve = Callable[[str], UiServer]

TALL: "ViewportSize" = {"width": 1280, "height": 1600}
PHONE: "ViewportSize" = {"width": 320, "height": 740}
"""The narrowest that has to do (WCAG 2.2, 1.4.10), and what a desk's is at 400 %."""
READABLE = 4.5
"""Contrast of text, at least (WCAG 2.2, 1.4.3)."""


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Serves the page of a snapshot that is this text."""
    with ExitStack() as stack:

        def serve_text(text: str) -> UiServer:
            file = tmp_path / "cluster.json"
            file.write_text(text)
            return stack.enter_context(serve_ui("--snapshot", str(file)))

        yield serve_text


@pytest.fixture
def seen(shown: UiServer, open_page: Open) -> "Seen":
    """The page of the snapshot, on a desk."""
    return open_page(shown.url, viewport=TALL)


def inspect_pools() -> Json:
    ended = start_command("inspect", "--pools", "-o", "json", "--snapshot", str(SNAPSHOT))
    said: Json = json.loads(ended.out)
    return said


def describe_card(card: Json, unit: str) -> str:
    held = ", ".join(f"{pod} {units}" for pod, units in card["held"].items())
    total = (
        f"of {card['total']} {unit}" if card["total"] else f"{unit} of a card that is not offered"
    )
    said = f"GPU {card['index']}: {card['allocated']} {total} allocated"
    return f"{said}: {held}" if held else said


def test_it_shows_every_node_with_its_cards_and_pods_as_inspect_says(seen: "Seen") -> None:
    said = inspect_pools()
    seen.row("inference").wait_for()

    named: list[str] = []
    for pool in said["pools"]:
        named += [pool["name"], *(node["name"] for node in pool["nodes"])]
        for node in pool["nodes"]:
            assert seen.cards(node["name"]) == [
                describe_card(c, pool["unit"]) for c in node["cards"]
            ]
            if node["state"] != "ready":
                text = seen.row(node["name"]).inner_text()
                assert f"{node['state']}: {node['reason']}" in text
                assert node["message"] in text
    named += ["In no pool", "cn-beijing.10.0.1.41", "Pods that wait"]
    assert seen.names() == [*named, *(pod["name"] for pod in said["waiting"])]
    for pod in said["waiting"]:
        text = seen.row(pod["name"]).inner_text()
        asks = f"asks for {pod['requested']} {said['unit']}, pool {' or '.join(pod['pools'])}"
        assert asks in text
        assert pod["message"] in text


def test_stale_isolation_has_a_sign_and_a_word_and_says_of_what(seen: "Seen") -> None:
    stale, kept = seen.row("cn-beijing.10.0.1.11"), seen.row("cn-beijing.10.0.1.13")
    assert "⚠ stale\n4 of 4 containers" in stale.inner_text().replace("\n\n", "\n")
    assert "✓ as labelled\n2 of 2 isolated" in kept.inner_text().replace("\n\n", "\n")

    stale.click()

    panel = seen.page.get_by_role("complementary")
    assert "main of pod vision/resnet-0 is not isolated: admitted under share" in panel.inner_text()


def test_a_change_under_way_shows_its_modes_and_its_step(seen: "Seen") -> None:
    text = seen.row("cn-beijing.10.0.1.31").inner_text()
    assert "↻ updating: PluginRestarting" in text
    assert "share → cgpu, Restarting" in text
    assert "share, pool wants cgpu" in seen.row("cn-beijing.10.0.1.32").inner_text()
    assert "cordoned" in seen.row("cn-beijing.10.0.1.23").inner_text()


def test_a_card_of_which_more_is_given_out_than_it_has_says_so_and_needs_attention(
    serve: Serve, open_page: Open
) -> None:
    cluster = json.loads(SNAPSHOT.read_text())
    (pod,) = (pod for pod in cluster["pods"] if pod["metadata"]["name"] == "tts")
    (container,) = pod["spec"]["containers"]
    container["resources"]["limits"]["aliyun.com/gpu-mem"] = "40"
    seen = open_page(serve(json.dumps(cluster)).url, viewport=TALL)
    seen.page.get_by_label("Only what needs attention").check()
    row = seen.row("cn-beijing.10.0.1.13")
    row.wait_for()
    first, *others = seen.cards("cn-beijing.10.0.1.13")
    assert "more than it has: speech/tts 40" in first
    assert not any("more than it has" in other for other in others)
    assert row.locator(".bar.over").count() == 1


def test_a_node_in_no_pool_says_which_stack_gives_out_its_cards_and_two_need_attention(
    serve: Serve, open_page: Open
) -> None:
    cluster = json.loads(SNAPSHOT.read_text())
    name, twice = "cn-beijing.10.0.1.41", "twice"
    node = next(each for each in cluster["nodes"] if each["metadata"]["name"] == name)
    metadata = {**node["metadata"], "name": twice, "uid": twice}
    cluster["nodes"].append({**node, "metadata": metadata})
    spec = {"driver": "gpu.nvidia.com", "devices": [{"name": "gpu-0"}]}
    cluster["resourceslices"] = [
        {"metadata": {"name": each, "uid": each}, "spec": {**spec, "nodeName": each}}
        for each in (name, twice)
    ]
    cluster["pods"].append(build_plugin_pod("ack-nvidia-device-plugin", twice))
    seen = open_page(serve(json.dumps(cluster)).url, viewport=TALL)
    assert "⊘ OtherStack\nNVIDIA's DRA driver" in seen.row(name).inner_text().replace("\n\n", "\n")
    assert "■ CompetingStacks" in seen.row(twice).inner_text()
    seen.page.get_by_label("Only what needs attention").check()
    seen.expect_gone(name)
    assert twice in seen.names()


def test_a_member_without_gpu_memory_shows_its_resource(serve: Serve, open_page: Open) -> None:
    cluster, name = json.loads(SNAPSHOT.read_text()), "cn-beijing.10.0.1.13"
    (node,) = (each for each in cluster["nodes"] if each["metadata"]["name"] == name)
    cluster["pods"] = []
    node["status"]["allocatable"] = node["status"]["capacity"] = {"nvidia.com/gpu": "8"}
    seen = open_page(serve(json.dumps(cluster)).url, viewport=TALL)
    assert "0/8 nvidia.com/gpu" in seen.row(name).inner_text()


# What is shown.


def test_a_pool_a_part_of_a_name_a_namespace_and_trouble_each_leave_their_rows(
    seen: "Seen",
) -> None:
    page = seen.page
    seen.row("training").wait_for()

    page.get_by_label("Pool").select_option("notebooks")
    nodes = [f"cn-beijing.10.0.1.{number}" for number in (31, 32, 33)]
    assert seen.names() == ["notebooks", *nodes]
    # However its letters are typed.
    page.get_by_role("searchbox", name="Node").fill("CN-Beijing.10.0.1.32")
    assert seen.names() == ["notebooks", "cn-beijing.10.0.1.32"]
    page.get_by_label("Pool").select_option("")
    page.get_by_role("searchbox", name="Node").fill("")
    page.get_by_label("Namespace").select_option("notebooks")
    assert seen.names() == ["notebooks", *nodes[:2]]
    page.get_by_label("Namespace").select_option("")
    page.get_by_label("Only what needs attention").check()
    kept = [name for name in seen.names() if name.startswith("cn-")]
    numbers = [name.rpartition(".")[2] for name in kept]
    assert numbers == ["23", "31", "32", "33", "11", "12"]


def test_other_namespaces_fade_in_the_bars_of_the_one_that_is_chosen(seen: "Seen") -> None:
    seen.page.get_by_label("Namespace").select_option("speech")
    bar = seen.row("cn-beijing.10.0.1.11").locator(".bar").first
    assert bar.locator(".held:not(.other)").all_inner_texts() == ["whisper-train"]
    assert bar.locator(".held.other").all_inner_texts() == ["resnet-0"]


def test_the_filters_outlive_a_reload(seen: "Seen") -> None:
    seen.page.get_by_label("Pool").select_option("training")
    seen.page.get_by_role("searchbox", name="Node").fill("1.12")
    seen.page.reload()
    seen.row("cn-beijing.10.0.1.12").wait_for()
    assert seen.names() == ["training", "cn-beijing.10.0.1.12"]


def test_an_address_with_other_filters_is_followed_without_a_reload(
    shown: UiServer, seen: "Seen"
) -> None:
    seen.page.get_by_label("Namespace").select_option("notebooks")
    seen.page.goto(f"{shown.url}#pool=training&node=1.12")
    seen.expect_gone("notebooks")
    assert seen.names() == ["training", "cn-beijing.10.0.1.12"]
    assert seen.page.get_by_label("Namespace").input_value() == ""


def test_a_pool_that_can_t_be_read_needs_attention_and_can_be_chosen(
    serve: Serve, open_page: Open
) -> None:
    cluster = json.loads(SNAPSHOT.read_text())
    (pool,) = (pool for pool in cluster["pools"] if pool["metadata"]["name"] == "notebooks")
    del pool["spec"]["nodes"]
    seen = open_page(serve(json.dumps(cluster)).url, viewport=TALL)
    seen.page.get_by_label("Only what needs attention").check()
    text = seen.row("notebooks").inner_text()
    assert "its spec can't be read: spec.nodes: Field required" in text
    seen.page.get_by_label("Pool").select_option("notebooks")
    assert seen.names() == ["notebooks"]


def test_filters_that_leave_nothing_say_so(shown: UiServer, open_page: Open) -> None:
    seen = open_page(shown.url)
    seen.page.get_by_role("searchbox", name="Node").fill("nonesuch")
    seen.page.get_by_text("Nothing matches the filters.").wait_for()


# By keyboard, in the dark, on a phone.


def test_all_of_it_can_be_done_by_keyboard(shown: UiServer, open_page: Open) -> None:
    seen = open_page(shown.url)
    keys = seen.page.keyboard
    seen.row("inference").wait_for()
    keys.press("/")
    keys.type("1.1")
    for _ in range(3):
        keys.press("Tab")
    assert seen.focused() == "training"

    keys.press("ArrowDown")
    keys.press("ArrowDown")
    assert seen.focused() == "cn-beijing.10.0.1.12"
    keys.press("Enter")
    panel = seen.page.get_by_role("complementary")
    assert "vision/detector" in panel.inner_text()
    assert seen.page.evaluate("document.activeElement.id") == "details-title"
    keys.press("Escape")
    assert seen.focused() == "cn-beijing.10.0.1.12"
    assert panel.is_hidden()
    keys.press("Home")
    assert seen.focused() == "training"
    keys.press("End")
    assert seen.focused() == "cn-beijing.10.0.1.13"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [TALL, PHONE], ids=["desk", "phone"])
def test_every_text_stands_out_from_what_is_behind_it(
    shown: UiServer, open_page: Open, scheme: str, viewport: Any
) -> None:
    seen = open_page(shown.url, viewport=viewport, color_scheme=scheme)
    seen.row("inference").wait_for()
    seen.row("cn-beijing.10.0.1.21").click()
    contrasts = seen.measure_contrasts()
    assert len(contrasts) > 30
    assert [(text, ratio) for text, ratio in contrasts if ratio < READABLE] == []


def test_it_is_dark_where_the_reader_s_machine_is(shown: UiServer, open_page: Open) -> None:
    def find_back(scheme: str) -> str:
        page = open_page(shown.url, color_scheme=scheme).page
        back: str = page.evaluate("getComputedStyle(document.body).backgroundColor")
        return back

    assert (find_back("light"), find_back("dark")) == ("rgb(255, 255, 255)", "rgb(16, 22, 30)")


def test_on_a_phone_nothing_is_wider_than_the_screen(shown: UiServer, open_page: Open) -> None:
    seen = open_page(shown.url, viewport=PHONE, has_touch=True)
    row = seen.row("cn-beijing.10.0.1.21")
    row.wait_for()
    width = "document.documentElement.scrollWidth"
    assert seen.page.evaluate(width) == PHONE["width"]
    cut = "names => names.filter(name => name.scrollWidth > name.clientWidth).length"
    assert seen.rows.locator(".name").evaluate_all(cut) == 0
    for bar in row.get_by_role("img").all():
        box = bar.bounding_box()
        assert box is not None
        assert box["width"] > 20
        assert box["x"] + box["width"] <= PHONE["width"]

    row.tap()

    assert "speech/serve-1" in seen.page.get_by_role("complementary").inner_text()
    assert seen.page.evaluate(width) == PHONE["width"]


def test_who_can_t_see_it_is_told_rows_their_headers_and_their_number(seen: "Seen") -> None:
    seen.row("inference").wait_for()
    grid = seen.page.get_by_role("grid", name="Nodes and their cards")
    rows = seen.rows.all()
    assert grid.get_attribute("aria-rowcount") == str(len(rows) + 1)
    for place, row in enumerate(rows):
        assert row.get_attribute("aria-rowindex") == str(place + 2)
        assert row.get_by_role("rowheader").count() == 1
    assert len(seen.page.get_by_role("columnheader").all()) == 4


def test_what_a_cluster_says_is_never_markup(serve: Serve, open_page: Open) -> None:
    markup = "<img src=x onerror=alert(1)>"
    hostile = SNAPSHOT.read_text().replace('"nowhere"', json.dumps(markup))
    seen = open_page(serve(hostile).url, viewport=TALL)
    assert markup in seen.row("stray").inner_text()
    assert seen.page.locator("img").count() == 0


def test_what_a_cluster_says_stands_in_the_order_that_it_has(serve: Serve, open_page: Open) -> None:
    """As commands print it."""
    hostile = SNAPSHOT.read_text().replace('"nowhere"', json.dumps("a\u202eb\u2066\x07"))
    seen = open_page(serve(hostile).url, viewport=TALL)
    row = seen.row("stray")
    assert r"a\u202eb\u2066\x07" in row.inner_text()
    titles = row.locator("[title]").evaluate_all("found => found.map(one => one.title).join()")
    assert r"a\u202eb\u2066\x07" in titles
    assert "\u202e" not in titles
