"""Describes what keeps the page from new data."""

from datetime import UTC, datetime
from typing import Any

from gpushare.cli.errors.failures import find_failure, report_failure

Json = dict[str, Any]


def describe_problem(error: Exception, before: Json | None) -> Json:
    """Describe `error` in one line; its time is that of `before`, the problem until now."""
    failure = find_failure(error) or report_failure(error)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    # What a broken server sends may be no text, and JSON holds nothing else.
    message = str(failure).encode("utf-8", "backslashreplace").decode()
    return {
        "code": int(failure.exit_code),
        "message": " ".join(message.split()),
        "since": before["since"] if before else now,
    }
