"""What who creates a pod is told about it, wherever it goes."""

from dataclasses import replace
from typing import Any

import pytest

from gpushare.api.k8s.namespace import Namespace
from gpushare.api.k8s.pod_request import parse_pod_request
from gpushare.core.admission.warnings import find_unit_warning
from gpushare.core.capacity.room import Room
from tests.kit.values.manifests import (
    CORE,
    COUNT,
    MEMORY,
    build_container,
    build_pod,
    build_whole_card_pod,
)
from tests.kit.values.pool_views import Json, a_room, a_view, admit


def _over(cards: str) -> Json:
    """A pod that asks for 8 GiB over so many cards."""
    return build_pod("a", gib=8, labels={COUNT: cards})


def _with(container: Json, **more: Any) -> Json:
    pod = build_pod("a", **more)
    pod["spec"]["containers"].append(container)
    return pod


def _limited(**limits: str) -> Json:
    return {"name": "b", "resources": {"limits": limits}}


WHOLE_CARD = build_pod("a", labels={"ack.gpushare.placement": "require-whole-device"})
INIT_ONLY = build_pod("a", gib=None, initContainers=[_limited(**{MEMORY: "3"})])
SEES_ALL = build_container("b", env={"NVIDIA_VISIBLE_DEVICES": "all"})


@pytest.mark.parametrize(
    ("pod", "pool", "words"),
    [
        (build_pod("a", gib=None, core=30), a_view(schedule="core_mem"), "both"),
        (build_pod("a", core=33), a_view(schedule="core_mem"), "a multiple of 5"),
        (
            _with(build_container("b", memory="3", core="3"), core=2),
            a_view(schedule="core_mem"),
            "a multiple of 5",
        ),
        (build_pod("a"), a_view(schedule="mps"), "hostIPC: true"),
        (_with(_limited(**{COUNT: "1"})), a_view(), "allocates no card"),
        (_with(SEES_ALL), a_view(), "cards that are not allocated"),
        (_over("many"), a_view(), "a whole number above 0"),
        (_over("0"), a_view(), "a whole number above 0"),
        (_over("3"), a_view(), "divisible"),
        (
            _with(_limited(**{MEMORY: "1", CORE: "10"}), core=10, labels={COUNT: "2"}),
            a_view(schedule="core_mem"),
            "divisible",
        ),
        (WHOLE_CARD, a_view(room=a_room([(10, 2)])), "no card is entirely free"),
        (_over("2"), a_view(edition="Basic"), "has no effect"),
        (_with(build_container("b", memory="1")), a_view(edition="Basic"), "in one container"),
        (INIT_ONLY, a_view(edition="Basic"), "Only init containers"),
        (build_pod("a"), a_view(schedule="share"), "does not isolate GPU memory"),
        (build_pod("a", env={"CGPU_DISABLE": "1"}), a_view(), "can use other pods' memory"),
    ],
)
def test_who_creates_a_doubtful_pod_is_warned(pod: Json, pool: Any, words: str) -> None:
    decision = admit(pod, pool)
    assert decision.pool == "training"
    (warning,) = decision.warnings
    assert words in warning


@pytest.mark.parametrize(
    ("pod", "pool"),
    [
        (build_pod("a"), a_view()),
        (build_pod("a", annotations={"gpushare.io/inject": "enabled"}), a_view()),
        (build_pod("a", env={"CGPU_DISABLE": "true"}), a_view(schedule="share")),
        (build_pod("a", annotations={"gpushare.io/isolation": "none"}), a_view(schedule="share")),
        (build_pod("a", core=30), a_view(schedule="core_mem")),
        (build_pod("a", hostIPC=True), a_view(schedule="mps")),
        (_over("2"), a_view()),
        (INIT_ONLY, a_view()),
        (_with(build_container("b", memory="1")), a_view()),
        (_with(build_container("b", env={"NVIDIA_VISIBLE_DEVICES": "none"})), a_view()),
    ],
)
def test_a_pod_that_gets_what_it_asks_for_draws_no_warning(pod: Json, pool: Any) -> None:
    assert admit(pod, pool).warnings == ()


@pytest.mark.parametrize(
    ("annotations", "labels", "words"),
    [
        ({"isolation": "maybe"}, {}, "Annotation gpushare.io/isolation is ignored"),
        ({"isolation": "Required"}, {}, "Annotation gpushare.io/isolation is ignored"),
        ({"inject": "Disabled"}, {}, "Annotation gpushare.io/inject is ignored"),
        ({}, {"inject": "DISABLED"}, "Label gpushare.io/inject of namespace a is ignored"),
        ({}, {"on-no-pool": "Deny"}, "Label gpushare.io/on-no-pool of namespace a is ignored"),
        ({}, {"failure-policy": "Fail"}, "Label gpushare.io/failure-policy of namespace a is"),
    ],
)
@pytest.mark.parametrize("scheduler", ["default-scheduler", "volcano"])
def test_a_word_that_means_nothing_as_it_is_written_is_said_wherever_the_pod_goes(
    annotations: dict[str, str], labels: dict[str, str], words: str, scheduler: str
) -> None:
    pod = build_pod("a", annotations=_ours(annotations), schedulerName=scheduler)
    *_, warning = admit(pod, a_view(), namespace=Namespace("a", _ours(labels))).warnings
    assert warning.startswith(words)
    assert warning.endswith("in lower case")


@pytest.mark.parametrize("key", ["pool", "isolation", "inject"])
def test_a_label_that_is_meant_as_an_annotation_is_named(key: str) -> None:
    labels = _ours({key: "required"})
    (warning,) = admit(build_pod("a", labels=labels), a_view()).warnings
    assert warning.startswith(f"Label gpushare.io/{key} of the pod is ignored")
    both = admit(build_pod("a", labels=labels, annotations=_ours({key: "none"})), a_view())
    assert not any(each.startswith("Label") for each in both.warnings)


def test_it_is_named_for_a_pod_that_asks_for_whole_cards_too() -> None:
    (warning,) = admit(build_whole_card_pod("a", labels=_ours({"pool": "x"})), a_view()).warnings
    assert warning.startswith("Label gpushare.io/pool of the pod is ignored")
    assert admit(build_pod("a", gib=None, labels=_ours({"pool": "x"})), a_view()).warnings == ()


def _ours(words: dict[str, str]) -> dict[str, str]:
    return {f"gpushare.io/{key}": value for key, value in words.items()}


def test_doubts_are_told_of_a_pod_too_that_chose_for_itself() -> None:
    pod = _with(SEES_ALL, selects={"gpushare.io/pool": "training"})
    assert "cards that are not allocated" in admit(pod, a_view()).warnings[0]
    pod = build_pod("a", gib=None, initContainers=[_limited(**{MEMORY: "3"})],
                    selects={"gpushare.io/pool": "training"})  # fmt: skip
    (warning,) = admit(pod, a_view(edition="Basic")).warnings
    assert "Only init containers" in warning


def _asking(amount: str, **more: Any) -> Json:
    pod = build_pod("a", gib=None, **more)
    pod["spec"]["containers"][0]["resources"] = {"limits": {MEMORY: amount}}
    return pod


IN_MIB = a_view(room=replace(a_room([(16384, 8)]), unit="MiB", largest_card=16384))


@pytest.mark.parametrize(
    ("amount", "pool", "words"),
    [
        ("10G", a_view(), "10000000000 GiB, but the largest card has 16 GiB. The unit is GiB"),
        ("5k", a_view(), "5000 GiB"),
        ("1E", a_view(), "1099511627776 or more GiB"),
        ("1234567", a_view(), "1234567 GiB, but the largest card has 16 GiB. The unit is GiB"),
        ("8193Mi", IN_MIB, "8590983168 MiB, but the largest card has 16384 MiB"),
        ("10G", a_view(room=replace(a_room([]), largest_card=0)), "10000000000 GiB. The"),
    ],
)
def test_who_takes_the_unit_for_bytes_is_told_the_unit(amount: str, pool: Any, words: str) -> None:
    (warning,) = [w for w in admit(_asking(amount), pool).warnings if "The unit is" in w]
    assert words in warning


@pytest.mark.parametrize("more", [{"selects": {"gpushare.io/pool": "training"}}, {"nodeName": "n"}])
def test_the_unit_is_told_wherever_the_pod_goes(more: Json) -> None:
    assert any(
        "The unit is" in warning for warning in admit(_asking("10G", **more), a_view()).warnings
    )


def test_where_pools_count_in_different_units_both_are_told() -> None:
    warning = find_unit_warning(parse_pod_request(_asking("10G")), (a_view(), IN_MIB))
    assert warning is not None
    assert "The unit is GiB or MiB" in warning
    assert "largest card" not in warning


def test_the_warning_about_the_unit_is_the_only_one() -> None:
    assert len(admit(_asking("10G"), a_view()).warnings) == 1


@pytest.mark.parametrize(
    ("amount", "pool"),
    [
        # 8000 MiB, which the API server writes so.
        ("8k", IN_MIB),
        ("999", a_view()),
        # Nobody knows the unit yet.
        ("10G", a_view(room=None)),
        ("6k", a_view(room=Room())),
    ],
)
def test_an_amount_that_may_be_meant_draws_no_warning_about_the_unit(
    amount: str, pool: Any
) -> None:
    assert not any("The unit is" in w for w in admit(_asking(amount), pool).warnings)
