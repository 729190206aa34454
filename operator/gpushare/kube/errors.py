"""Interprets the API server's errors; the only place where status codes are read."""

import re
from collections.abc import Sequence
from typing import Any

import orjson
from aiohttp import ClientError, ClientResponseError

from gpushare import names

BUDGET_CAUSE = "DisruptionBudget"
"""Of the refusal of an eviction: a PodDisruptionBudget does not allow it now."""
_OF_WEBHOOK = re.compile(r'admission webhook ".*" denied the request|failed calling webhook "')
"""How the API server says in any answer that it is a webhook's (apiserver/pkg/admission)."""


class KubeError(Exception):
    """Base of the errors between the operator and the API server."""


class CredentialsError(KubeError):
    """No usable credentials; the message says which were tried and what to do."""


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
    """Pools are in the way of removing the operator; the message says which, and what to do."""


class NotLeaderError(KubeError):
    """A write that was held back: another controller may be the active one by now."""


class SyncLostError(KubeError):
    """What we know of the cluster is too old to decide by; the message says of what."""


class MalformedAnswerError(KubeError):
    """An answer that the API server can't have meant: cut short, or from something in between."""


class EvictionRefusedError(KubeError):
    """A pod must stay where it is for now; the message names the pod and says who keeps it."""


class SilentWatchError(KubeError):
    """A watch that was accepted, and that the server did not end when its time was up."""


class JobTakenError(KubeError):
    """A Job of our name is there that is not for the node; the message names it."""


class ApiError(KubeError):
    """An answer other than 2xx; the message is the API server's own sentence."""

    def __init__(self, status: int, body: bytes, *, what: str, retry_after: float | None = None):
        self.status = status
        self.retry_after_seconds = retry_after
        try:
            parsed: Any = orjson.loads(body)
        except orjson.JSONDecodeError:
            parsed = None
        fields = parsed if isinstance(parsed, dict) else {}
        self.reason: str = fields.get("reason") or ""
        # What stands between us and the API server answers in shapes of its own.
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
        """Build the error from a Status object, as the ERROR event of a watch carries it."""
        code = status.get("code")
        status_code = code if isinstance(code, int) and code >= 400 else 500
        return cls(status_code, orjson.dumps(status), what=what)

    @property
    def is_not_found(self) -> bool:
        return self.status == 404

    @property
    def is_conflict(self) -> bool:
        """Whether it is a 409: another writer was first, or another object has the name."""
        return self.status == 409

    @property
    def is_invalid(self) -> bool:
        """Whether it is a 422: among others, a test of a JSON patch failed."""
        return self.status == 422

    @property
    def is_expired(self) -> bool:
        """Whether it is a 410: the resourceVersion is too old; list again."""
        return self.status == 410

    @property
    def is_overload(self) -> bool:
        """Whether the API server can't answer now, whoever asks."""
        return self.status in (408, 429) or self.status >= 500

    @property
    def is_refusal(self) -> bool:
        """Whether a right is missing or the object is not acceptable, or an admission webhook says
        so, with whatever code, or can't be called: trying again at once won't help."""
        return self.status in (403, 422) or _OF_WEBHOOK.search(self.message) is not None

    @property
    def keeps_pod(self) -> str | None:
        """As the answer to an eviction: why the pod must stay; None for a failure of the call.

        A PodDisruptionBudget answers 429 or 403 and gives itself as the cause; two budgets for one
        pod answer 500; a missing right or an admission policy 403 ("API-initiated Eviction" in the
        Kubernetes documentation). Any other 429 is of an overloaded API server, which says when to
        come back, or of somebody who keeps the pod.
        """
        budgets = [c.get("message", "") for c in self.causes if c.get("reason") == BUDGET_CAUSE]
        if budgets:
            return budgets[0] or self.message
        is_kept = self.status == 429 and self.retry_after_seconds is None
        return self.message if self.is_refusal or self.status == 500 or is_kept else None

    @property
    def is_transient(self) -> bool:
        """Whether another try may succeed without any change.

        403 is among them: an API server that has just started answers it for seconds.
        """
        return self.status in (401, 403) or self.is_overload


CALL_FAILURES = (ApiError, MalformedAnswerError, SilentWatchError, ClientError, OSError)
"""What a call to the API server may raise, however it failed; a timeout is an OSError."""


def describe_failure(error: BaseException) -> str:
    """Describe a failure by its message, or else by its type: a timeout has no message."""
    if isinstance(error, ClientResponseError):
        # Its own text quotes the address, where that of a proxy may have a password.
        url = error.request_info.real_url.with_user(None)
        return f"{url}: {error.status} {error.message}"
    return str(error) or type(error).__name__
