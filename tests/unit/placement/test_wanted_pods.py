"""The pods that a user wants to have simulated."""

from typing import Any

import pytest

from gpushare.cli.exit_codes import CommandError, Exit
from gpushare.cli.input.manifests import Given
from gpushare.cli.simulate.queue import Wanted, list_wanted
from gpushare.workload_kinds import merge_kinds
from tests.kit.values.manifests import build_pod, build_workload


def _build(replicas: Any) -> Given:
    workload = build_workload("Deployment", "d", pod=build_pod("trainer"))
    workload["spec"]["replicas"] = replicas
    return Given(workload, "d.yaml")


@pytest.mark.parametrize("replicas", [-3, True, "5", 1.5])
def test_a_number_of_replicas_that_the_api_server_would_refuse_is_refused(replicas: Any) -> None:
    with pytest.raises(CommandError, match=r"spec\.replicas") as refused:
        list_wanted(Wanted([_build(replicas)], most=10), "default", merge_kinds())
    assert refused.value.exit_code == Exit.MANIFEST


def test_a_workload_without_replicas_says_how_to_count_its_pods() -> None:
    with pytest.raises(CommandError, match="--count"):
        list_wanted(Wanted([_build(0)], most=10), "default", merge_kinds())


def test_the_pods_of_all_manifests_are_limited() -> None:
    assert len(list_wanted(Wanted([_build(10)], most=10), "default", merge_kinds()).pods) == 10
    with pytest.raises(CommandError, match="more than 10") as refused:
        list_wanted(Wanted([_build(6), _build(6)], most=10), "default", merge_kinds())
    assert refused.value.exit_code == Exit.USAGE
