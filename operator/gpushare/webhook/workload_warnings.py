"""Words what the webhook says where a workload is applied: where the pods of each template go."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import msgspec

from gpushare.api.k8s.pod_shape import PodShape
from gpushare.core.admission.decision import AdmissionDecision, sanitize
from gpushare.core.admission.pool_view import PoolView
from gpushare.names import Reason
from gpushare.webhook.pod_template import MAX_TEMPLATES, PodsFound

MAX_WARNINGS = 10
"""Limit of the warnings about an object: the API server drops what is beyond 4 KiB of them."""
_SHOWN = 2
_ALONE = "this workload"

Decide = Callable[[PodShape], AdmissionDecision]


class WorkloadAnswer(NamedTuple):
    """What is said of a workload, and why."""

    warnings: tuple[str, ...]
    reasons: tuple[Reason, ...]
    """Of the decisions about its pods, each once; none where its pods are not known."""


NO_CONCERN = WorkloadAnswer((), (Reason.NO_GPU_REQUEST,))
"""Of a workload that says nothing of shared GPUs."""


class _Sentence(NamedTuple):
    """A sentence about pods, before and after their name."""

    before: str
    after: str


def answer_workload(
    found: Iterable[PodsFound], decide: Decide, pools: Sequence[PoolView]
) -> WorkloadAnswer:
    """Decide on the pods of each template, on equal ones once, and word what their user reads.

    Equal answers are told once, with the templates that they are about.
    """
    told: dict[_Sentence, list[str]] = {}
    decisions: dict[bytes, AdmissionDecision] = {}
    left = iter(found)
    for each in islice(left, MAX_TEMPLATES):
        if each.pod is None:
            told.setdefault(
                _Sentence("Pods of ", f" are not known here: {each.problem}"), []
            ).append(each.where)
            continue
        key = msgspec.json.encode(each.pod)
        if key not in decisions:
            decisions[key] = decide(each.pod)
        for sentence in _word(decisions[key], pools, each.where):
            told.setdefault(sentence, []).append(each.where)
    warnings = [
        sanitize(f"{before}{_list(where) or (before and _ALONE)}{after}")
        for (before, after), where in told.items()
    ]
    if next(left, None) is not None:
        warnings.append(f"Only the first {MAX_TEMPLATES} templates of this workload were checked")
    if (more := len(warnings) - MAX_WARNINGS) > 0:
        warnings[MAX_WARNINGS - 1 :] = [f"{more + 1} more warnings about this workload"]
    nothing = {} if told else {Reason.NO_GPU_REQUEST: None}
    reasons = {decision.reason: None for decision in decisions.values()} or nothing
    return WorkloadAnswer(tuple(warnings), tuple(reasons))


def _word(
    decision: AdmissionDecision, pools: Sequence[PoolView], where: str
) -> Iterator[_Sentence]:
    if refusal := decision.refusal:
        yield _Sentence("Pods of ", f" will be refused: {refusal}")
    elif decision.pool is not None:
        schedule = next(pool.schedule for pool in pools if pool.name == decision.pool)
        yield _Sentence("Pods of ", f" will be assigned to pool {decision.pool} ({schedule})")
    for warning in decision.warnings:
        yield _Sentence("", f": {warning}" if where else warning)


def _list(templates: Sequence[str]) -> str:
    names = list(dict.fromkeys(templates))
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
