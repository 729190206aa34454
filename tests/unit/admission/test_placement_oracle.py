"""Thousands of random pods, each judged by an oracle that tries the cards one by one."""

import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from secrets import token_hex
from typing import Any

import pytest

from gpushare.api.k8s.namespace import Namespace
from gpushare.core.admission.decision import AdmissionDecision
from gpushare.core.admission.pool_view import view_pool
from gpushare.core.admission.request import Rules
from gpushare.names import Reason
from tests.kit.histories.card_oracle import End, Verdict, find_nodes, is_isolated_selector, judge
from tests.kit.histories.gpu_cluster import Application
from tests.kit.histories.gpu_cluster_generator import GpuClusterGenerator
from tests.kit.histories.gpu_cluster_manifests import build_applicant, build_living_pool
from tests.kit.values.pool_views import admit, apply_decision

CASES = int(os.environ.get("GPUSHARE_HISTORIES", "0")) * 100
"""By `make fuzz`: so many new ones; else the same 10,000 every time."""
SEED = token_hex(4) if CASES else "admission"
PODS_PER_CLUSTER = 10
ENOUGH = min(100, (CASES or 10_000) // 100)

pytestmark = pytest.mark.timeout(1200 + CASES // 100)

REASONS = tuple(Reason)
AT_ADMISSION = REASONS[REASONS.index(Reason.ROUTED) : REASONS.index(Reason.LATER_NAME) + 1]
"""How an admission may end, and why a pool may lose."""
SELDOM = {
    *(Reason.RESERVED, Reason.CAPACITY_UNKNOWN, Reason.FULLER),
    Reason.NODE_LABELS_UNKNOWN,  # test_node_label_oracle.py
    Reason.LESS_PREFERRED,  # test_score.py
    Reason.ROUTED_BY_POLICY,  # not the webhook's
    *(Reason.GANG_SPLIT, Reason.GANG_ELSEWHERE, Reason.GANG_TOO_LARGE),  # test_gangs.py
}


@dataclass(frozen=True)
class Trial:
    """One pod: what was decided, and what the oracle says."""

    seed: str
    case: Application
    decision: AdmissionDecision
    verdict: Verdict
    again: AdmissionDecision
    """What is decided of the pod as the first decision left it."""
    turned: AdmissionDecision
    """What is decided where the pools come in the other order."""

    @property
    def selector(self) -> dict[str, str]:
        """The pod's node selector as it was decided."""
        return {**dict(self.decision.selector), **self.case.pod.selects}

    @property
    def nodes(self) -> frozenset[str]:
        """Nodes that could take the pod as it was decided."""
        return find_nodes(self.case.pod, self.case.pools, self.selector, self.decision.tolerations)

    @property
    def requires_isolation(self) -> bool:
        pod = self.case.pod
        return pod.isolation == "required" and bool(pod.asks or pod.core)

    def __str__(self) -> str:
        return f"{self.seed}: {self.decision}\n{self.verdict}\n{self.case}"


@pytest.fixture(scope="module")
def trials() -> list[Trial]:
    worlds = (CASES or 10_000) // PODS_PER_CLUSTER
    return [trial for snapshot in range(worlds) for trial in _try_cluster(f"{SEED}-{snapshot}")]


def _try_cluster(seed: str) -> Iterator[Trial]:
    generator = GpuClusterGenerator(seed)
    pools = generator.generate_pools()
    views = [view for pool in pools if (view := view_pool(build_living_pool(pool)))]
    assert len(views) == len(pools)
    for index in range(PODS_PER_CLUSTER):
        case = generator.generate_application(pools)
        reserved = generator.generate_booked(pools)
        raw = build_applicant(case.pod, f"pod-{index}")
        namespace = Namespace("default", case.namespace)
        given: Any = {"namespace": namespace, "rules": Rules(denies=case.denies)}
        decision = admit(raw, *views, reserved=reserved, **given)
        again = admit(apply_decision(raw, decision), *views, **given)
        turned = admit(raw, *views[::-1], reserved=reserved, **given)
        yield Trial(f"{seed}/{index}", case, decision, judge(case), again, turned)


def _expect_none(sentence: str, wrong: Sequence[Trial]) -> None:
    shown = "\n\n".join(str(trial) for trial in wrong[:3])
    assert not wrong, f"{sentence}: {len(wrong)} times, first\n{shown}"


def test_a_routed_pod_finds_a_card_if_one_in_an_eligible_pool_can_take_it(
    trials: list[Trial],
) -> None:
    wrong = [t for t in trials if t.decision.pool and t.verdict.nodes and not t.nodes]
    _expect_none("sent where no card can take it", wrong)
    assert sum(bool(trial.verdict.nodes) for trial in trials) > len(trials) / 10


def test_a_pod_goes_to_an_eligible_pool_wherever_there_is_one(trials: list[Trial]) -> None:
    wrong = [
        trial
        for trial in trials
        if trial.verdict.end is End.ROUTED
        and trial.decision.pool not in {pool.name for pool in trial.verdict.eligible}
    ]
    _expect_none("not sent to an eligible pool", wrong)


def test_a_pod_that_has_its_place_or_no_claim_to_one_is_sent_nowhere(trials: list[Trial]) -> None:
    left = [trial for trial in trials if trial.verdict.end is End.LEFT]
    _expect_none("sent to a pool", [trial for trial in left if trial.decision.pool])
    wrong = [t for t in left if t.decision.is_refused and not t.requires_isolation]
    _expect_none("refused", wrong)


def test_a_pod_that_no_pool_takes_is_refused_where_that_is_configured_and_warned_elsewhere(
    trials: list[Trial],
) -> None:
    refused = [trial for trial in trials if trial.verdict.end is End.REFUSED]
    _expect_none("not refused", [trial for trial in refused if not trial.decision.is_refused])
    untaken = [trial for trial in trials if trial.verdict.end is End.UNTAKEN]
    _expect_none(
        "refused, routed or not told",
        [t for t in untaken if t.decision.is_refused or t.decision.pool or not t.decision.warnings],
    )


def test_a_pod_that_requires_isolation_gets_it_or_is_refused(trials: list[Trial]) -> None:
    requiring = [trial for trial in trials if trial.requires_isolation]
    wrong = [
        trial
        for trial in requiring
        if not trial.decision.is_refused and not is_isolated_selector(trial.selector)
    ]
    _expect_none("runs without the isolation that it requires", wrong)


def test_a_pod_that_comes_again_is_left_as_it_is(trials: list[Trial]) -> None:
    routed = [trial for trial in trials if trial.decision.pool]
    wrong = [
        trial
        for trial in routed
        if trial.again.reason is not Reason.ALREADY_ROUTED
        or trial.again.selector
        or trial.again.tolerations
        or trial.again.annotation
        or trial.again.reserved
    ]
    _expect_none("changed again", wrong)


def test_the_order_of_the_pools_does_not_matter(trials: list[Trial]) -> None:
    wrong = [trial for trial in trials if trial.turned != trial.decision]
    _expect_none("decided otherwise", wrong)


def test_every_end_and_every_loss_is_seen_often_enough_to_be_believed(trials: list[Trial]) -> None:
    counted = Counter(trial.decision.reason for trial in trials)
    counted.update(trial.again.reason for trial in trials if trial.decision.pool)
    for trial in trials:
        if trial.decision.annotation:
            lost = json.loads(trial.decision.annotation).get("lost", {})
            counted.update(Reason(reason) for reason in lost)
    expected = [reason for reason in AT_ADMISSION if reason not in SELDOM]
    rare = {reason: counted[reason] for reason in expected if counted[reason] < ENOUGH}
    assert not rare, f"of {len(trials)} cases: {rare}"
