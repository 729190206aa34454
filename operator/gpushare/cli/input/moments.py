"""Reads points in time as they are typed."""

from datetime import UTC, datetime

import typer


def parse_moment(text: str, option: str) -> datetime | None:
    """Parse a time in ISO 8601, in UTC where it names no zone; None for none.

    Raises `BadParameter`.
    """
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        message = f"{text!r} is no time such as 2027-01-04T08:00+08:00"
        raise typer.BadParameter(message, param_hint=option) from error
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
