"""Reads points in time as they are typed."""

from datetime import UTC, datetime

import typer

_FIRST_YEAR, _LAST_YEAR = 2000, 2200


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
    if not _FIRST_YEAR <= moment.year <= _LAST_YEAR:
        message = f"{text!r} is not between the years {_FIRST_YEAR} and {_LAST_YEAR}"
        raise typer.BadParameter(message, param_hint=option)
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
