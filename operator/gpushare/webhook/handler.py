"""Answers AdmissionReviews of pods and workloads from memory, without any call."""

import functools
import logging
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from gpushare.api.k8s.pod_request import read_pod_request
from gpushare.api.k8s.pod_shape import PodShape
from gpushare.core.admission.decide import decide
from gpushare.core.admission.decision import AdmissionDecision, sanitize
from gpushare.core.admission.pool_view import PoolView
from gpushare.core.admission.request import Rules
from gpushare.core.admission.reservations import Reservations
from gpushare.core.admission.shortlist import Shortlists
from gpushare.observe.metrics import Metrics
from gpushare.webhook.cache import PoolCache
from gpushare.webhook.codec import build_answer, parse_pod_review, parse_workload_review
from gpushare.webhook.decision_log import DecisionLog
from gpushare.webhook.patch import plan_patch
from gpushare.webhook.pod_template import PODS, WorkloadShape, find_template


def _nothing() -> None:
    return None


class Answered(NamedTuple):
    """An answer's body, and the function that counts and logs it once it is sent."""

    body: bytes
    account: Callable[[], object] = _nothing


class AdmissionHandler:
    """Decides on pods and workloads, from the cache.

    Methods take the body of a request and return the answer. They raise `MalformedReviewError`,
    `MalformedPodError` and `NoTemplateError` for an invalid request, and `UndecidedError` where
    the cache can't be used.
    """

    def __init__(
        self,
        cache: PoolCache,
        decision_log: DecisionLog,
        metrics: Metrics,
        *,
        rules: Rules,
        replicas: int,
    ) -> None:
        self._cache = cache
        self._decision_log = decision_log
        self._rules = rules
        self._reservations = Reservations(replicas)
        self._shortlists = Shortlists()
        # Looking a series up costs more than counting in it.
        self._pods = functools.cache(metrics.admissions.labels)
        self._workloads = functools.cache(metrics.workload_admissions.labels)

    def mutate_pod(self, body: bytes) -> Answered:
        """Assign a pod that is being created to its pool, or explain why not."""
        review = parse_pod_review(body)
        if review.operation != "CREATE" or review.resource != PODS or review.sub_resource:
            return Answered(build_answer(review.uid))
        pod = review.object or PodShape()
        namespace, pools = self._cache.recall(review.namespace or "")
        now = time.monotonic()
        reserved = self._reservations.count(pools, now)
        decision = decide(
            read_pod_request(pod), namespace, pools, self._rules, reserved, self._shortlists
        )
        patch = plan_patch(pod, decision)
        if decision.pool is not None and decision.reserved and not review.dry_run:
            self._reservations.reserve(decision.pool, decision.reserved, now)
        refusal = decision.refusal
        changes = bool(patch or refusal) and not review.dry_run
        return Answered(
            build_answer(review.uid, patch=patch, warnings=decision.warnings, refusal=refusal),
            functools.partial(self._account, namespace.name, _name(pod), decision, changes),
        )

    def warn_of_workload(self, body: bytes) -> Answered:
        """Warn where a workload's pods will be assigned; the workload is never changed."""
        review = parse_workload_review(body)
        if review.operation not in ("CREATE", "UPDATE") or review.sub_resource:
            return Answered(build_answer(review.uid))
        template = find_template(review.resource, review.object or WorkloadShape())
        if template is None:
            return Answered(build_answer(review.uid))
        namespace, pools = self._cache.recall(review.namespace or "")
        pod = read_pod_request(template)
        reserved = self._reservations.count(pools, time.monotonic())
        decision = decide(pod, namespace, pools, self._rules, reserved, self._shortlists)
        answer = build_answer(review.uid, warnings=_warn(decision, pools))
        return Answered(answer, self._workloads(decision.reason).inc)

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


def _warn(decision: AdmissionDecision, pools: Sequence[PoolView]) -> tuple[str, ...]:
    if refusal := decision.refusal:
        return (sanitize(f"Pods of this workload will be refused: {refusal}"), *decision.warnings)
    if decision.pool is None:
        return decision.warnings
    schedule = next(pool.schedule for pool in pools if pool.name == decision.pool)
    assigned = f"Pods of this workload will be assigned to pool {decision.pool} ({schedule})"
    return (assigned, *decision.warnings)
