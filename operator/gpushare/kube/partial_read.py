"""Reading as far as one may."""

from collections.abc import Awaitable
from typing import TypeVar

from gpushare.core.analysis.finding import Unseen
from gpushare.kube.errors import ApiError, OtherVersionError

Found = TypeVar("Found")


async def see(call: Awaitable[Found]) -> Found | Unseen:
    """What `call` reads, or why it can't be read: a right is missing, or it is of another version.

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
