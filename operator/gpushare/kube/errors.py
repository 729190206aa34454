"""Interprets the API server's errors; the only place where status codes are read."""

import re
from collections.abc import Sequence
from typing import Any

import orjson
from aiohttp import ClientError, ClientResponseError

from gpushare import names

BUDGET_CAUSE = "DisruptionBudget"
"""Cause in a refused eviction: a PodDisruptionBudget does not allow it now."""
_OF_WEBHOOK = re.compile(r'admission webhook ".*" denied the request|failed calling webhook "')
"""Message of an answer that an admission webhook caused (apiserver/pkg/admission)."""


class KubeError(Exception):
    """Base of the errors between the operator and the API server."""


class CredentialsError(KubeError):
    """No usable credentials; the message names those that were tried, and the remedy."""


class CrdMissingError(KubeError):
    """The GPUSharePool is not installed in this cluster."""

    def __init__(self) -> None:
        super().__init__(
            f"CustomResourceDefinition {names.PLURAL}.{names.GROUP} is not installed. Install the "
            "chart with crds.install=true, or apply crds/gpusharepools.yaml"
        )


class OtherVersionError(KubeError):
    """The cluster serves GPUSharePools only in other versions."""

    def __init__(self, served: Sequence[str]) -> None:
        super().__init__(
            f"the cluster serves {names.GROUP} in version {', '.join(served)}, but this program "
            f"reads {names.VERSION}. Use the program of the installed version"
        )


class PoolsRemainError(KubeError):
    """Pools block the removal of the operator; the message names them, and the remedy."""


class NotLeaderError(KubeError):
    """A write was not sent: another controller may be the active one by now."""


class SyncLostError(KubeError):
    """A copy of the cluster's objects is too old to decide by; the message says of which."""


class MalformedAnswerError(KubeError):
    """The answer is not of the API server's format: cut short, or from a proxy in between."""


class AnswerTooLongError(KubeError):
    """The answer is longer than the caller wants to read; the message says how long it may be."""


class EvictionRefusedError(KubeError):
    """A pod can't be evicted now; the message names the pod and what keeps it."""


class SilentWatchError(KubeError):
    """The server accepted a watch, and did not end it when its time was up."""


class JobTakenError(KubeError):
    """A Job with the name of ours exists for another node; the message names it."""


class ApiError(KubeError):
    """An answer other than 2xx; the message is the API server's own."""

    def __init__(self, status: int, body: bytes, *, what: str, retry_after: float | None = None):
        self.status = status
        self.retry_after_seconds = retry_after
        try:
            parsed: Any = orjson.loads(body)
        except orjson.JSONDecodeError:
            parsed = None
        fields = parsed if isinstance(parsed, dict) else {}
        self.reason: str = fields.get("reason") or ""
        # A proxy between us and the API server answers in formats of its own.
        details = fields.get("details")
        causes = details.get("causes") if isinstance(details, dict) else None
        self.causes: tuple[dict[str, str], ...] = tuple(
            cause
            for cause in (causes if isinstance(causes, list) else ())
            if isinstance(cause, dict)
        )
        message = fields.get("message")
        self.message = str(message) if message else body[:200].decode(errors="replace")
        super().__init__(f"{what}: {status} {self.message}")

    @classmethod
    def from_status(cls, status: dict[str, Any], *, what: str) -> "ApiError":
        """Build the error from a Status object, such as that of a watch's ERROR event."""
        code = status.get("code")
        status_code = code if isinstance(code, int) and code >= 400 else 500
        return cls(status_code, orjson.dumps(status), what=what)

    @property
    def is_not_found(self) -> bool:
        return self.status == 404

    @property
    def is_conflict(self) -> bool:
        """Whether the status is 409: another writer was first, or another object has the name."""
        return self.status == 409

    @property
    def is_invalid(self) -> bool:
        """Whether the status is 422: among others, a test of a JSON patch failed."""
        return self.status == 422

    @property
    def is_expired(self) -> bool:
        """Whether the status is 410: the resourceVersion is too old; list again."""
        return self.status == 410

    @property
    def is_overload(self) -> bool:
        """Whether the API server can't answer any client now."""
        return self.status in (408, 429) or self.status >= 500

    @property
    def is_of_webhook(self) -> bool:
        """Whether an admission webhook refuses the object or can't be called, with any status."""
        return _OF_WEBHOOK.search(self.message) is not None

    @property
    def is_refusal(self) -> bool:
        """Whether a right is missing, the object is invalid, or an admission webhook refuses it or
        can't be called, with whatever code: trying again at once won't help."""
        return self.status in (403, 422) or self.is_of_webhook

    @property
    def keeps_pod(self) -> str | None:
        """Why a pod can't be evicted, in the answer to an eviction; None for a failed call.

        A PodDisruptionBudget answers 429 or 403 and gives itself as the cause; two budgets for one
        pod answer 500; a missing right or an admission policy 403 ("API-initiated Eviction" in the
        Kubernetes documentation). Any other 429 is of an overloaded API server, if it has a
        Retry-After, or else of an admission plugin that keeps the pod.
        """
        budgets = [c.get("message", "") for c in self.causes if c.get("reason") == BUDGET_CAUSE]
        if budgets:
            return budgets[0] or self.message
        is_kept = self.status == 429 and self.retry_after_seconds is None
        return self.message if self.is_refusal or self.status == 500 or is_kept else None

    @property
    def is_transient(self) -> bool:
        """Whether another try may succeed without any change.

        403 is included: an API server that has just started answers it for seconds.
        """
        return self.status in (401, 403) or self.is_overload


CALL_FAILURES = (ApiError, MalformedAnswerError, SilentWatchError, ClientError, OSError)
"""All errors of a failed call to the API server; a timeout is an OSError."""


def describe_failure(error: BaseException) -> str:
    """Describe a failure by its message, or else by its type: a timeout has no message."""
    if isinstance(error, ClientResponseError):
        # The error's own text quotes the URL, which may be a proxy's with a password.
        url = error.request_info.real_url.with_user(None)
        return f"{url}: {error.status} {error.message}"
    return str(error) or type(error).__name__
