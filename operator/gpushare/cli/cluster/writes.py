"""Sends the writes of commands, and reports what became of one that failed."""

from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from aiohttp import ClientConnectorError, ClientError

from gpushare import names
from gpushare.cli.exit_codes import CommandError, Exit
from gpushare.kube.errors import ApiError, KubeError, describe_failure

Answer = TypeVar("Answer")
POOL_RIGHTS = f"get and patch on {names.PLURAL}.{names.GROUP}"


async def send(call: Awaitable[Answer]) -> Answer:
    """Send a write. Raises `CommandError` where its answer was lost, so that its fate is unknown,
    and else what the call raises."""
    try:
        return await call
    except (KubeError, ClientError, TimeoutError) as error:
        if isinstance(error, ClientConnectorError) or (
            isinstance(error, ApiError) and not error.is_overload
        ):
            raise
        raise CommandError(
            Exit.INCOMPLETE,
            f"it is unknown whether this was written: {describe_failure(error)}. Run the command "
            "again, which is safe",
        ) from error


@contextmanager
def naming_rights(rights: str) -> Iterator[None]:
    """Raise `CommandError` with the `rights` that a command needs, where one of them is missing."""
    try:
        yield
    except ApiError as error:
        if error.status != 403 or error.is_of_webhook:
            raise
        message = f"nothing was written: a right is missing ({error}). Ask for {rights}"
        raise CommandError(Exit.FORBIDDEN, message) from error
