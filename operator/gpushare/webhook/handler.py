"""Answers AdmissionReviews of pods and workloads from memory, without any call."""

import functools
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from gpushare.api.k8s.pod_request import read_pod_request
from gpushare.api.k8s.pod_shape import PodShape
from gpushare.core.admission.decide import decide
from gpushare.core.admission.decision import AdmissionDecision
from gpushare.core.admission.gangs import Gangs, read_gang
from gpushare.core.admission.request import Rules
from gpushare.core.admission.reservations import Reservations
from gpushare.core.admission.shortlist import Shortlists
from gpushare.names import Reason
from gpushare.observe.metrics import Metrics
from gpushare.webhook.cache import PoolCache
from gpushare.webhook.codec import build_answer, parse_pod_review, parse_workload_review
from gpushare.webhook.decision_log import DecisionLog
from gpushare.webhook.patch import plan_patch
from gpushare.webhook.pod_template import PODS, find_pods
from gpushare.webhook.policy_choice import take_back
from gpushare.webhook.workload_warnings import NO_CONCERN, answer_workload
from gpushare.workload_kinds import WorkloadKind


def _nothing() -> None:
    return None


class Answered(NamedTuple):
    """An answer's body, and the function that counts and logs it once it is sent."""

    body: bytes
    account: Callable[[], object] = _nothing


class AdmissionHandler:
    """Decides on pods and workloads, from the cache.

    Methods take the body of a request and return the answer. They raise `MalformedReviewError` and
    `MalformedPodError` for an invalid request, and `UndecidedError` where the cache can't be used.
    """

    def __init__(
        self,
        cache: PoolCache,
        decision_log: DecisionLog,
        metrics: Metrics,
        *,
        rules: Rules,
        replicas: int,
        kinds: Mapping[str, WorkloadKind],
    ) -> None:
        self._cache = cache
        self._decision_log = decision_log
        self._rules = rules
        self._kinds = kinds
        self._reservations = Reservations(replicas)
        self._shortlists = Shortlists()
        self._gangs = Gangs()
        # Looking a series up costs more than counting in it.
        self._pods = functools.cache(metrics.admissions.labels)
        self._workloads = functools.cache(metrics.workload_admissions.labels)

    def mutate_pod(self, body: bytes) -> Answered:
        """Assign a pod that is being created to its pool, or explain why not."""
        review = parse_pod_review(body)
        if review.operation != "CREATE" or review.resource != PODS or review.sub_resource:
            return Answered(build_answer(review.uid))
        namespace, pools = self._cache.recall(review.namespace or "")
        pod, taken_back = take_back(review.object or PodShape(), pools)
        now = time.monotonic()
        reserved = self._reservations.count(pools, now)
        request = read_pod_request(pod)
        gang = self._gangs.recall(read_gang(pod), namespace.name, now)
        decision = decide(request, namespace, pools, self._rules, reserved, self._shortlists, gang)
        patch = [*taken_back, *plan_patch(pod, decision)]
        if decision.pool is not None and not review.dry_run:
            if decision.reserved:
                self._reservations.reserve(decision.pool, decision.reserved, now)
            if gang is not None:
                self._gangs.note(gang, namespace.name, decision.pool, now)
        refusal = decision.refusal
        changes = bool(patch or refusal) and not review.dry_run
        return Answered(
            build_answer(review.uid, patch=patch, warnings=decision.warnings, refusal=refusal),
            functools.partial(self._account, namespace.name, _name(pod), decision, changes),
        )

    def warn_of_workload(self, body: bytes) -> Answered:
        """Warn where a workload's pods will be assigned; the workload is never changed."""
        review = parse_workload_review(body)
        kind = self._kinds.get(f"{review.resource.resource}.{review.resource.group}")
        if review.operation not in ("CREATE", "UPDATE") or review.sub_resource or kind is None:
            return Answered(build_answer(review.uid))
        raw = review.object
        if not isinstance(raw, dict):
            # It says nothing of shared GPUs: it waits for no namespace, and for no pools.
            count = functools.partial(self._count_workload, NO_CONCERN.reasons)
            return Answered(build_answer(review.uid), count)
        namespace, pools = self._cache.recall(review.namespace or "")
        reserved = self._reservations.count(pools, time.monotonic())

        def decide_on(pod: PodShape) -> AdmissionDecision:
            request = read_pod_request(pod)
            gang = read_gang(pod)
            return decide(request, namespace, pools, self._rules, reserved, self._shortlists, gang)

        told = answer_workload(find_pods(kind, raw), decide_on, pools)
        answer = build_answer(review.uid, warnings=told.warnings)
        return Answered(answer, functools.partial(self._count_workload, told.reasons))

    def _count_workload(self, reasons: Sequence[Reason]) -> None:
        for reason in reasons:
            self._workloads(reason).inc()

    def _account(
        self, namespace: str, pod: str, decision: AdmissionDecision, changes: bool
    ) -> None:
        """Count a decision, and note it for the log."""
        self._pods(decision.reason).inc()
        level = logging.WARNING if decision.is_refused else logging.INFO
        self._decision_log.note(level if changes else logging.DEBUG, namespace, pod, decision)

    async def wait_for_namespace(self, name: str) -> None:
        """Return when the namespace is known, or after 2 s."""
        await self._cache.wait_for_namespace(name)


def _name(pod: PodShape) -> str:
    """Return the pod's name; for one that a controller creates, its `generateName`."""
    metadata = pod.metadata
    return (metadata.name or metadata.generate_name or "") if metadata is not None else ""
