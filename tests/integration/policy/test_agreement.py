"""Random pods and pools: the API server by the chart's policy, and the webhook's own decision
without figures of free memory, choose the same pool, and give the pod the same."""

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from secrets import token_hex
from typing import Any

import pytest

from devcluster.apiserver import ApiError
from gpushare import names
from gpushare.api.k8s.namespace import Namespace
from gpushare.api.k8s.pod_request import PodRequest, parse_pod_request
from gpushare.core.admission.decide import decide
from gpushare.core.admission.decision import AdmissionDecision
from gpushare.core.admission.pool_view import MOST_REQUIREMENTS, PoolView
from tests.integration.policy.policy_bench import PolicyBench, read_decision
from tests.integration.policy.random_pods import draw_pod
from tests.integration.policy.random_pools import NAMESPACES, draw_pools
from tests.kit.values.pool_views import apply_decision

Json = dict[str, Any]
PODS = int(os.environ.get("GPUSHARE_POLICY_PODS", "0"))
"""By `make test-policy-agreement`: so many new ones; else the same every time."""
SEED = token_hex(4) if PODS else "policy"
PODS_PER_TABLE = 40
_OF_ISOLATION = "ValidatingAdmissionPolicy 'gpushare-isolation'"
"""Refuses pods that require isolation and got none."""
_DEFAULTED = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
"""Taints that the API server lets every pod tolerate."""

pytestmark = pytest.mark.timeout(300 + PODS // 5)


@dataclass(frozen=True)
class Trial:
    seed: str
    raw: Json
    namespace: Namespace
    pools: Sequence[PoolView]
    decision: AdmissionDecision
    answer: Json | ApiError

    @property
    def request(self) -> PodRequest:
        return parse_pod_request(self.raw)

    @property
    def created(self) -> Json | None:
        """The pod as the API server has it; None where it is refused."""
        return None if isinstance(self.answer, ApiError) else self.answer

    @property
    def is_valid(self) -> bool:
        """Whether the API server itself would take the pod."""
        return self.created is not None or _OF_ISOLATION in str(self.answer)

    @property
    def policys(self) -> str | None:
        """The pool that the policy chose."""
        return read_decision(self.created).get("pool") if self.created else None

    @property
    def terms(self) -> list[list[Json]]:
        nodes = (self.raw["spec"].get("affinity") or {}).get("nodeAffinity") or {}
        required = nodes.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
        return [
            [*(term.get("matchExpressions") or ()), *(term.get("matchFields") or ())]
            for term in required.get("nodeSelectorTerms") or ()
        ]

    @property
    def numbers(self) -> Iterator[str]:
        for term in self.terms:
            for each in term:
                if each["operator"] in ("Gt", "Lt"):
                    yield each["values"][0]

    def __str__(self) -> str:
        pools = "\n".join(map(str, self.pools))
        given = self.created and {
            "nodeSelector": self.created["spec"].get("nodeSelector"),
            "tolerations": self.created["spec"].get("tolerations"),
            "annotations": self.created["metadata"].get("annotations"),
        }
        return (
            f"{self.seed}: {self.decision.pool} by decide ({self.decision.reason}: "
            f"{self.decision.message}), {self.policys} by the policy\n{self.raw}\n{given}\n"
            f"{self.namespace}\n{pools}"
        )


WANTED: Mapping[str, Callable[[Trial], bool]] = {
    # Weights would have to be summed for each pool: a wish that waits for the webhook.
    "preferred node affinity": lambda t: bool(
        t.request.preferences and t.policys and t.decision.pool
    ),
    # The webhook compares such an affinity with less; the policy spares the API server.
    f"more than {MOST_REQUIREMENTS} requirements": lambda t: (
        t.policys is None and sum(map(len, t.terms)) > MOST_REQUIREMENTS
    ),
    # What CEL's numbers can hold for certain.
    "numbers of more than 18 digits": lambda t: any(
        len(number.lstrip("+-")) > 18 for number in t.numbers
    ),
    # It was here before: the webhook looks whether that is true, the policy leaves it to that.
    "a decision is there": lambda t: (
        t.policys is None
        and names.ANNOTATION_DECISION in (t.raw["metadata"].get("annotations") or {})
    ),
    # No node can ever match, with a pool's labels or without them.
    "contradicts itself": lambda t: (
        t.policys is not None and t.request.selection.contradicts_itself
    ),
}
"""Disagreements that are wanted."""


@pytest.fixture(scope="module")
def trials(policy: PolicyBench) -> list[Trial]:
    spaces = list(map(policy.add_namespace, NAMESPACES))
    tables = (PODS or 600) // PODS_PER_TABLE
    return [
        trial
        for number in range(tables)
        for trial in _try_table(policy, spaces, f"{SEED}-{number}")
    ]


def _try_table(policy: PolicyBench, spaces: Sequence[str], seed: str) -> Iterator[Trial]:
    chance = Random(seed)
    pools = policy.write_table(draw_pools(chance))
    pods = [(chance.choice(spaces), draw_pod(chance)) for _ in range(PODS_PER_TABLE)]
    answers = policy.create_all(pods)
    for number, ((space, raw), answer) in enumerate(zip(pods, answers, strict=True)):
        namespace = policy.namespaces[space]
        decision = decide(parse_pod_request(raw), namespace, pools)
        yield Trial(f"{seed}/{number}", raw, namespace, pools, decision, answer)


def _expect_none(sentence: str, wrong: Sequence[Trial]) -> None:
    shown = "\n\n".join(str(trial) for trial in wrong[:3])
    assert not wrong, f"{sentence}: {len(wrong)} times, first\n{shown}"


def _find_class(trial: Trial) -> str | None:
    return next((name for name, is_wanted in WANTED.items() if is_wanted(trial)), None)


def test_the_policy_chooses_the_pool_that_the_webhook_would_choose_without_figures(
    trials: list[Trial],
) -> None:
    valid = [trial for trial in trials if trial.is_valid]
    differing = [trial for trial in valid if trial.policys != trial.decision.pool]
    counted = Counter(_find_class(trial) for trial in differing)
    routed = sum(trial.policys is not None for trial in valid)
    print(
        f"pods={len(trials)} refused={len(trials) - len(valid)} routed={routed} "
        f"differing={dict(counted)}"
    )
    _expect_none("chose otherwise", [t for t in differing if _find_class(t) is None])
    assert routed > len(trials) / 10
    assert len(valid) > len(trials) * 0.9


def test_a_pod_gets_from_the_policy_what_the_webhook_would_give_it(trials: list[Trial]) -> None:
    wrong = [
        trial
        for trial in trials
        if trial.created is not None
        and trial.policys == trial.decision.pool
        and _list_given(trial.created) != _list_given(_expect_given(trial))
    ]
    _expect_none("given other things", wrong)


def _expect_given(trial: Trial) -> Json:
    """The pod as it is without the policy, or with the webhook's patch."""
    return apply_decision(trial.raw, trial.decision) if trial.decision.pool else trial.raw


def _list_given(pod: Json) -> tuple[Json, list[Json]]:
    spec = pod["spec"]
    tolerations = [
        each for each in spec.get("tolerations") or () if each.get("key") not in _DEFAULTED
    ]
    return spec.get("nodeSelector") or {}, tolerations
