"""Reads what the caller has the right to read."""

from collections.abc import Awaitable
from typing import TypeVar

from gpushare.analysis.finding import Unseen
from gpushare.kube.errors import ApiError, OtherVersionError

Found = TypeVar("Found")


async def see(call: Awaitable[Found]) -> Found | Unseen:
    """Return what `call` reads, or why not: a right is missing, or the version is another one.

    Raises what else a call may raise.
    """
    try:
        return await call
    except OtherVersionError as error:
        return Unseen(str(error))
    except ApiError as error:
        if error.status != 403:
            raise
        return Unseen(f"a right is missing: {error.message}")
