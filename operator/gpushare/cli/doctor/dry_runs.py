"""Asks the API server, by dry runs that store nothing, for rights and for the webhook's answers."""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from urllib.parse import quote

from gpushare import names
from gpushare.analysis.doctor.chart import OTHER_PODS, PODS, WORKLOADS
from gpushare.analysis.doctor.rights import Right
from gpushare.analysis.doctor.webhook import Trial, Trials, Tried
from gpushare.analysis.finding import Unseen
from gpushare.api.decision_annotation import parse_past_decision
from gpushare.cli.cluster.partial_read import see
from gpushare.kube.client import ApiClient, Json
from gpushare.kube.errors import ApiError
from gpushare.names import Reason

_REVIEWS = "apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_CHOOSE_ANOTHER = "Choose another namespace with -n"


async def ask_for_rights(
    api: ApiClient, rights: Collection[Right]
) -> Mapping[Right, bool] | Unseen:
    """Ask which of these rights the caller has; no object is stored for that."""

    async def ask_for(right: Right) -> bool:
        wanted = {"verb": right.verb, "group": right.group, "resource": right.resource}
        spec = {"resourceAttributes": {**wanted, "namespace": right.namespace}}
        answer = await api.create(_REVIEWS, {"spec": spec})
        return (answer.get("status") or {}).get("allowed") is True

    answers = await see(asyncio.gather(*map(ask_for, rights)))
    return answers if isinstance(answers, Unseen) else dict(zip(rights, answers, strict=True))


async def try_webhook(api: ApiClient, namespace: str, exempt: Collection[str]) -> Trials | Unseen:
    """Create a pod that asks for GPU memory, and a Deployment of such pods, and check what the
    webhook answers; it is not called for namespaces in `exempt`.

    Both are dry runs, of which nothing is stored ("Dry-run" in the Kubernetes documentation of API
    concepts).
    """
    if namespace in exempt:
        return Unseen(f"Namespace {namespace} is exempt from the webhook. {_CHOOSE_ANOTHER}")
    where = f"namespaces/{quote(namespace, safe='')}"
    found = await see(api.find(f"api/v1/{where}"))
    if found is None:
        return Unseen(f"Namespace {namespace} does not exist")
    meta = {} if isinstance(found, Unseen) else found["metadata"]
    if (meta.get("labels") or {}).get(names.LABEL_INJECT) == names.INJECT_DISABLED:
        label = f"{names.LABEL_INJECT}={names.INJECT_DISABLED}"
        return Unseen(f"Namespace {namespace} has the label {label}. {_CHOOSE_ANOTHER}")
    return (
        await _try(api, f"api/v1/{where}/pods", build_trial_pod(), _is_decided),
        await _try(
            api, f"apis/apps/v1/{where}/deployments", build_trial_deployment(), _is_warned_of
        ),
    )


Answered = Callable[[Json, Sequence[str]], bool]


async def _try(api: ApiClient, path: str, body: Json, is_answered: Answered) -> Tried | Unseen:
    try:
        created, warnings = await api.try_create(path, body)
    except ApiError as error:
        return read_refusal(error)
    return Tried(Trial.ANSWERED if is_answered(created, warnings) else Trial.SILENT)


def _is_decided(pod: Json, warnings: Sequence[str]) -> bool:
    decision = parse_past_decision(pod["metadata"].get("annotations") or {})
    return decision is not None and decision.reason != Reason.ROUTED_BY_POLICY


def _is_warned_of(deployment: Json, warnings: Sequence[str]) -> bool:
    """Recognize our webhook by a warning that no other gives: of an annotation without meaning."""
    return any(names.ANNOTATION_ISOLATION in warning for warning in warnings)


def read_refusal(error: ApiError) -> Tried | Unseen:
    """Read from a refused trial whether the webhook answered. Raises it where that is unclear."""
    ours = [f'webhook "{name}"' for name in (PODS, OTHER_PODS, WORKLOADS)]
    if any(f"admission {name} denied" in error.message for name in ours):
        return Tried(Trial.ANSWERED)
    if any(f"calling {name}" in error.message for name in ours):
        return Tried(Trial.SILENT, error.message)
    if error.status == 403 and "cannot create resource" in error.message:
        return Unseen(f"a right is missing: {error.message}")
    if error.is_overload or error.status == 401:
        raise error
    return Tried(Trial.REFUSED, error.message)


_PREFIX = "gpushare-doctor-"
_SPEC: Json = {
    "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
    "containers": [
        {
            "name": "trial",
            "image": "gpushare-doctor",
            "resources": {"limits": {names.RESOURCE_GPU_MEMORY: "1"}},
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
            },
        }
    ],
}
"""Spec of a pod that the strictest Pod Security level allows."""


def build_trial_pod() -> Json:
    """Build a pod that the webhook decides on."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": _PREFIX},
        "spec": _SPEC,
    }


def build_trial_deployment() -> Json:
    """Build a Deployment of such pods with an annotation that the webhook warns of."""
    labels = {"app": "gpushare-doctor"}
    annotations = {names.ANNOTATION_ISOLATION: "trial"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"generateName": _PREFIX},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels, "annotations": annotations}, "spec": _SPEC},
        },
    }
