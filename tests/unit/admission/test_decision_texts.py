"""How a decision is said: sentences for people, and the pod's annotation."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare.api.k8s.namespace import Namespace
from gpushare.core.admission.decision import (
    build_annotation,
    join_advice,
    list_causes,
    sanitize,
)
from gpushare.core.admission.request import Rules
from gpushare.names import Reason
from tests.kit.values.manifests import build_pod
from tests.kit.values.pool_views import Json, a_view, admit

MANY = [a_view(f"whole-{number:03}", "default") for number in range(100)]
VARIED = [a_view(f"pool-{number:03}", closed=Reason.POOL_OBSERVES) for number in range(100)]


def test_the_annotation_says_where_the_pod_went_and_where_each_other_pool_lost() -> None:
    decision = admit(build_pod("a"), a_view(), a_view("inference", "share"), MANY[0])
    assert orjson.loads(decision.annotation) == {
        "v": 1,
        "reason": "Routed",
        "pool": "training",
        "lost": {"NotIsolated": ["inference"], "OtherMode": ["whole-000"]},
    }


def test_losers_for_which_there_is_no_space_are_counted() -> None:
    lost = [f"pool-{number:03}" for number in range(200)]
    given = {Reason.OTHER_MODE: lost, Reason.NOT_ISOLATED: ["last"]}
    written = orjson.loads(build_annotation(Reason.ROUTED, "training", given))
    shown = written["lost"]["OtherMode"]
    assert shown == lost[: len(shown)]
    assert written["lost"].keys() == {"OtherMode"}
    assert written["more"] == len(lost) + 1 - len(shown)
    assert len(shown) > 80


def test_the_annotation_speaks_of_no_losers_where_there_are_none() -> None:
    assert build_annotation(Reason.ALREADY_SELECTS) == '{"v":1,"reason":"AlreadySelects"}'


def test_pools_that_lost_for_one_cause_are_named_together() -> None:
    message = admit(build_pod("a"), *MANY[:3], rules=Rules(denies=True)).message
    assert "whole-000, whole-001, whole-002: mode default does not offer" in message


def test_a_warning_with_no_space_for_a_cause_counts_all_pools_and_keeps_what_to_do() -> None:
    causes = [([name * 60], "it accepts only pods that request it") for name in ("a", "b")]
    _, warning = list_causes("No pool accepts this pod" * 5, causes, "Create another pool")
    assert warning.endswith(". 2 pools rejected it. Create another pool")


def test_a_warning_shows_as_many_causes_as_it_holds_and_what_to_do() -> None:
    causes = [
        a_view("b", "default"),
        a_view("c", closed=Reason.POOL_OBSERVES),
        a_view("d", closed=Reason.POOL_DELETING),
    ]
    for pools, last in (
        (causes, "rejected it. Remove one of these causes, or create a pool"),
        (VARIED, "and 99 more: "),
    ):
        (warning,) = admit(build_pod("a"), *pools).warnings
        assert last in warning
        assert len(warning) <= 256
    assert "d: it is being deleted" in admit(build_pod("a"), *causes).message


@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [
        ("short", 5, "short"),
        ("too long", 7, "too ..."),
        ("äöü", 6, "äöü"),
        ("äöüß", 7, "äö..."),
        ("äöüß", 6, "ä..."),
        ("a\r\nb\x00", 256, "a??b?"),
    ],
)
def test_text_is_cut_between_characters_and_carries_no_control_characters(
    text: str, limit: int, expected: str
) -> None:
    assert sanitize(text, limit) == expected


LONG = "x\n" + "ü" * 300


@pytest.mark.parametrize(
    ("pod", "labels"),
    [
        (build_pod("a", annotations={"gpushare.io/pool": LONG}), {}),
        (build_pod("a", annotations={"gpushare.io/isolation": LONG}), {}),
        (build_pod("a", selects={"gpushare.io/pool": LONG}), {}),
        (build_pod("a", schedulerName=LONG), {}),
        (build_pod("a"), {"gpushare.io/default-pool": "d-" + "x" * 200}),
    ],
)
def test_what_users_wrote_is_told_in_lines_that_are_short_enough_and_can_be_carried(
    pod: Json, labels: dict[str, str]
) -> None:
    namespace = Namespace("team", labels)
    decision = admit(
        pod, a_view("d-" + "x" * 200, closed=Reason.POOL_OBSERVES), namespace=namespace
    )
    assert decision.warnings
    for warning in decision.warnings:
        assert len(warning.encode()) <= 256
        assert warning.isprintable()
    assert len(decision.message.encode()) <= 2500
    assert decision.message.isprintable()


@given(st.sets(st.text(min_size=1, max_size=253), min_size=1, max_size=60))
def test_the_annotation_is_json_of_a_kibibyte_at_most_for_any_names_of_pools(
    called: set[str],
) -> None:
    pools = [a_view(name, "share" if len(name) % 2 else "cgpu") for name in called]
    decision = admit(build_pod("a"), *pools)
    assert len(decision.annotation.encode()) <= 1024
    written = orjson.loads(decision.annotation)
    listed = [name for names in written.get("lost", {}).values() for name in names]
    assert {written["pool"], *listed} <= called
    assert 1 + len(listed) + written.get("more", 0) == len(called)


def test_the_advice_stays_whole_where_a_text_is_cut() -> None:
    text = join_advice("é" * 500, "Fix the selection", 256)
    assert text.endswith(". Fix the selection")
    assert len(text.encode()) <= 256
