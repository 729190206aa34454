"""Questions to the API server that store nothing: what one may do, what would become of a pod."""

import asyncio
from collections.abc import Collection, Mapping
from urllib.parse import quote

from gpushare import names
from gpushare.core.doctor.finding import Unseen
from gpushare.core.doctor.rights import Right
from gpushare.core.doctor.webhook import Trial, Tried
from gpushare.core.doctor.webhooknames import OTHER_PODS, PODS
from gpushare.kube.client import ApiServer, Json
from gpushare.kube.errors import ApiError
from gpushare.kube.installations import see

_REVIEWS = "apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


async def ask_for_rights(
    api: ApiServer, rights: Collection[Right]
) -> Mapping[Right, bool] | Unseen:
    """Which of them whoever asks has; a review is an answer, and no object that is stored."""

    async def ask_for(right: Right) -> bool:
        wanted = {"verb": right.verb, "group": right.group, "resource": right.resource}
        spec = {"resourceAttributes": {**wanted, "namespace": right.namespace}}
        answer = await api.create(_REVIEWS, {"spec": spec})
        return (answer.get("status") or {}).get("allowed") is True

    answers = await see(asyncio.gather(*map(ask_for, rights)))
    return answers if isinstance(answers, Unseen) else dict(zip(rights, answers, strict=True))


async def try_pod(api: ApiServer, namespace: str, exempt: Collection[str]) -> Tried | Unseen:
    """Create a pod that asks for GPU memory as a dry run, and see whether the webhook decided on
    it; namespaces in `exempt` are not its business.

    Nothing is stored ("Dry-run" in the Kubernetes documentation of API concepts).
    """
    if namespace in exempt:
        return Unseen("its pods are exempt from the webhook; name another namespace with -n")
    path = f"api/v1/namespaces/{quote(namespace, safe='')}"
    try:
        found = await api.get(path)
    except ApiError as error:
        if error.is_not_found:
            return Tried(Trial.REFUSED, error.message)
        if error.status != 403:
            raise
        found = {}
    labels = (found.get("metadata") or {}).get("labels") or {}
    if labels.get(names.LABEL_INJECT) == names.INJECT_DISABLED:
        return Unseen(f"it has {names.LABEL_INJECT}=disabled; name another namespace with -n")
    try:
        answer = await api.create(f"{path}/pods", build_trial_pod(), dryRun="All")
    except ApiError as error:
        return read_refusal(error)
    annotations = answer["metadata"].get("annotations") or {}
    is_decided = names.ANNOTATION_DECISION in annotations
    return Tried(Trial.ANSWERED if is_decided else Trial.SILENT)


def read_refusal(error: ApiError) -> Tried | Unseen:
    """What the refusal of a trial pod says of the webhook. Raises it where it says nothing."""
    ours = [f'webhook "{name}"' for name in (PODS, OTHER_PODS)]
    if any(f"admission {name} denied" in error.message for name in ours):
        return Tried(Trial.ANSWERED)
    if any(f"calling {name}" in error.message for name in ours):
        return Tried(Trial.SILENT, error.message)
    if error.status == 403 and "cannot create resource" in error.message:
        return Unseen(f"a right is missing: {error.message}")
    if error.is_overload or error.status == 401:
        raise error
    return Tried(Trial.REFUSED, error.message)


def build_trial_pod() -> Json:
    """A pod that the strictest Pod Security level lets in."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "gpushare-doctor-"},
        "spec": {
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
        },
    }
