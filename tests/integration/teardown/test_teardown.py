"""Isolation that shall go for good: by hand, where the node says what it waits for, to the end; and
by Jobs, nodes side by side, each with another end."""

from collections.abc import Iterator

import pytest

from devcluster import names
from devcluster.installation import TEARDOWN_NAMESPACE
from tests.kit.bench import MODE, NODES, POOLS, Bench, Json
from tests.kit.cluster.expect import expect, expect_reason, expect_running, is_isolated
from tests.kit.cluster.installations import teardown_jobs_allowed
from tests.kit.cluster.node_teardown import (
    boot_id,
    expect_event,
    expect_isolating,
    expect_shared_for_good,
    given_isolating_pool,
    has_module,
    reboot,
)
from tests.kit.cluster.sharing_pools import place_pod
from tests.kit.cluster.teardown_jobs import TEARDOWN_JOBS

TEARDOWN = "gpushare.io/teardown"
REMOVED_BY_HAND = {names.UNINSTALL: "true"}
"""On a node where a person has typed what the Event says, up to the reboot."""


def test_a_node_is_torn_down_by_a_person_and_another_is_left_alone(bench: Bench) -> None:
    bench.install("Professional")
    bench.operators.standard()
    given_isolating_pool(bench, "training", "n1", "n2")
    expect_isolating(bench, training=2)
    bench.change_pool(schedule="share")
    expect_reason(bench, "n1", "RequiresTeardown", "gpushare.io/teardown=start")

    bench.annotate(f"{NODES}/n1", {TEARDOWN: "start"})
    expect_reason(bench, "n1", "ModuleRemoval", "render teardown n1")
    node = bench.node("n1")
    assert node["metadata"]["labels"][MODE] == "share"
    assert node["spec"]["unschedulable"]
    expect_event(bench, "n1", "ModuleRemoval", "annotate node n1 gpushare.io/teardown=done")
    expect(bench, "no installer is left", lambda: "n1" not in bench.plugins("cgpu-installer"))

    bench.annotate(f"{NODES}/n1", REMOVED_BY_HAND)
    reboot(bench, "n1")
    expect_reason(bench, "n1", "ModuleUnverified")
    assert bench.node("n1")["spec"]["unschedulable"]
    bench.annotate(f"{NODES}/n1", {TEARDOWN: "done"})
    expect_shared_for_good(bench, "n1")

    pod = expect_running(bench, place_pod(bench, "after", "n1"))
    assert not is_isolated(pod)
    expect_reason(bench, "n2", "RequiresTeardown")
    assert bench.node("n2")["metadata"]["labels"][MODE] == "cgpu"
    assert has_module(bench, "n2")


def test_a_node_that_dies_meanwhile_halts_its_pool_and_comes_back_late(bench: Bench) -> None:
    bench.install("Professional")
    bench.operators.standard()
    given_isolating_pool(bench, "training", "n1", "n2", rollout={"readyTimeoutSeconds": 3})
    expect_isolating(bench, training=2)
    bench.change_pool(schedule="share")
    for node in ("n1", "n2"):
        bench.annotate(f"{NODES}/{node}", {TEARDOWN: "start"})
    # Not before the installer has left, which would put the module back.
    expect_reason(bench, "n1", "ModuleRemoval", "render teardown n1")
    bench.annotate(f"{NODES}/n1", REMOVED_BY_HAND)

    bench.set_faults("n1", not_ready=True)
    expect_reason(bench, "n1", "DeadlineExceeded")
    expect_reason(bench, "n2", "RolloutHalted")
    assert bench.node("n2")["metadata"]["labels"][MODE] == "cgpu"
    assert "unschedulable" not in bench.node("n2")["spec"]

    bench.set_faults("n1")
    reboot(bench, "n1")
    bench.annotate(f"{NODES}/n1", {TEARDOWN: "done"})
    expect_shared_for_good(bench, "n1")


# By Jobs.

HOSTILE = "{{ 7 * 7 }}\n---\nkind: Pod\n\"'$(reboot)" * 6_000
KURED = {"sim.devcluster/kured": "true"}
MANUAL: Json = {"policy": "Job", "reboot": "Manual"}
SENTINEL: Json = {"policy": "Job", "reboot": "Sentinel"}


@pytest.fixture(scope="module")
def _allowed(installed: Bench) -> Iterator[None]:
    with teardown_jobs_allowed(installed):
        yield


@pytest.fixture
def jobs(_allowed: None, bench: Bench) -> Iterator[Bench]:
    """An operator that makes Jobs, on the Professional edition."""
    bench.install("Professional")
    bench.operators.start()
    yield bench
    bench.call("DELETE", TEARDOWN_JOBS, {"propagationPolicy": "Background"})


def jobs_of(bench: Bench, node: str) -> list[str]:
    """What the Jobs of a node do, in the order in which they were made."""
    found = bench.call("GET", TEARDOWN_JOBS)["items"]
    own = [job for job in found if job["metadata"]["annotations"]["gpushare.io/node"] == node]
    own.sort(key=lambda job: str(job["metadata"]["creationTimestamp"]))
    return [" ".join(job["spec"]["template"]["spec"]["containers"][0]["args"]) for job in own]


def test_jobs_remove_the_module_and_person_or_kured_reboots(jobs: Bench) -> None:
    noted = {"example.com/noted": HOSTILE}
    given_isolating_pool(jobs, "person", "n1", isolationTeardown=MANUAL, annotations=noted)
    jobs.annotate(f"{POOLS}/person", noted)
    given_isolating_pool(jobs, "kured", "n2", isolationTeardown=SENTINEL, annotations=KURED)
    expect_isolating(jobs, person=1, kured=1)
    boots = {node: boot_id(jobs, node) for node in ("n1", "n2")}
    for pool in ("person", "kured"):
        jobs.change_pool(pool, schedule="share")

    expect_reason(jobs, "n1", "RebootNeeded", "Reboot the node", pool="person")
    expect_shared_for_good(jobs, "n2")
    assert jobs_of(jobs, "n2") == ["uninstall sentinel", "verify"]
    assert boot_id(jobs, "n1") == boots["n1"]
    assert has_module(jobs, "n1")
    boots["n1"] = reboot(jobs, "n1")
    expect_shared_for_good(jobs, "n1")
    assert jobs_of(jobs, "n1") == ["uninstall", "verify"]
    expect_event(jobs, "n1", "ModuleRemoval", "Pool person: Job")
    expect_event(jobs, "n1", "ModuleUnverified", "Pool person: Job")


def test_a_job_that_fails_and_a_module_that_stays_halt_their_pools(jobs: Bench) -> None:
    given_isolating_pool(
        jobs, "fails", "n1", isolationTeardown=MANUAL, faults={"uninstall_fails": True},
        rollout={"onFailure": "Rollback"},
    )  # fmt: skip
    given_isolating_pool(
        jobs, "stays", "n2", "n3", isolationTeardown=SENTINEL, annotations=KURED,
        faults={"module_survives_reboot": True, "reboot_seconds": 0.2},
    )  # fmt: skip
    expect_isolating(jobs, fails=1, stays=2)
    boots = {node: boot_id(jobs, node) for node in ("n1", "n2", "n3")}
    for pool in ("fails", "stays"):
        jobs.change_pool(pool, schedule="share")

    log = f"kubectl logs -n {TEARDOWN_NAMESPACE} job/"
    expect_reason(jobs, "n1", "TeardownFailed", log, pool="fails")
    expect_reason(jobs, "n2", "ModuleStillLoaded", pool="stays")
    expect_reason(jobs, "n3", "RolloutHalted", pool="stays")
    assert jobs.node("n3")["metadata"]["labels"][MODE] == "cgpu"
    assert jobs_of(jobs, "n3") == []
    assert boot_id(jobs, "n1") == boots["n1"]
    assert expect_event(jobs, "n1", "TeardownFailed", log)["type"] == "Warning"

    jobs.set_faults("n1")
    jobs.set_faults("n2")
    second = boot_id(jobs, "n2")
    for pool in ("fails", "stays"):
        jobs.annotate(f"{POOLS}/{pool}", {"gpushare.io/retry": "1"})
    expect_reason(jobs, "n1", "RebootNeeded", pool="fails")
    expect_shared_for_good(jobs, "n2")
    # The middle ones may be created within a second, and then have the order of their names.
    first, *_, last = listed = jobs_of(jobs, "n2")
    assert sorted(listed) == ["uninstall sentinel"] * 2 + ["verify"] * 2
    assert (first, last) == ("uninstall sentinel", "verify")
    assert len({boots["n2"], second, boot_id(jobs, "n2")}) == 3


def test_a_node_that_never_comes_back_is_told_of_and_no_other_is_touched(jobs: Bench) -> None:
    given_isolating_pool(
        jobs, "training", "n1", "n2", isolationTeardown=SENTINEL, annotations=KURED,
        rollout={"readyTimeoutSeconds": 5}, faults={"never_boots": True},
    )  # fmt: skip
    expect_isolating(jobs, training=2)
    with jobs.watching() as watch:
        jobs.change_pool(schedule="share")
        expect_reason(jobs, "n1", "DeadlineExceeded")
        expect_reason(jobs, "n2", "RolloutHalted")
    others = [node for node in watch.history if node["metadata"]["name"] == "n2"]
    assert not any(node["spec"].get("unschedulable") for node in others)
    assert jobs_of(jobs, "n2") == []
