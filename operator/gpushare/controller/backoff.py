"""Decides how long to wait after a write that failed."""

from gpushare.kube.errors import ApiError

RETRY_SECONDS = 1.0
LONGEST_RETRY_SECONDS = 20.0


def find_delay(error: BaseException, refusals: int = 0) -> float:
    """Return the seconds that the API server asks for, or more after each refusal in a row."""
    wanted = error.retry_after_seconds if isinstance(error, ApiError) else None
    longer = min(RETRY_SECONDS * 2.0 ** min(refusals, 10), LONGEST_RETRY_SECONDS)
    return max(wanted or RETRY_SECONDS, longer)
