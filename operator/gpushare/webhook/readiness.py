"""Calls the webhook's own port as the API server does, to check that the API server can."""

import asyncio
import ssl
from collections.abc import Callable

import aiohttp

from gpushare.kube.errors import describe_failure

PATH = "/healthz"
PERIOD_SECONDS = 5.0
RETRY_SECONDS = 0.1
"""Pause after a failed call; short, since a rollout waits for this process to be ready."""
TIMEOUT_SECONDS = 3.0


class ReadinessCall:
    """Calls the webhook's own server periodically, over TLS, under `server_name`.

    `find_trust` returns the CAs that the API server trusts, as PEM; None where it uses those of
    its own machine. While `usable` is not set no call is made, since none could succeed.
    """

    def __init__(
        self,
        host: str,
        server_name: str,
        find_trust: Callable[[], bytes | None],
        usable: asyncio.Event,
    ) -> None:
        self._host = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, host)
        self._server_name = server_name
        self._find_trust = find_trust
        self._usable = usable
        self._problem: str | None = "not called yet"

    def find_problem(self) -> str | None:
        """Find why the last call failed; None where it succeeded. A check for /readyz."""
        return self._problem and f"the webhook's call to itself failed: {self._problem}"

    async def run(self, port: int) -> None:
        """Call `port` for ever."""
        while True:
            await self._usable.wait()
            self._problem = await self._call(port)
            await asyncio.sleep(RETRY_SECONDS if self._problem else PERIOD_SECONDS)

    async def _call(self, port: int) -> str | None:
        bundle = self._find_trust()
        try:
            # Without a bundle the machine's own CAs, as the API server does.
            tls = ssl.create_default_context(cadata=None if bundle is None else bundle.decode())
            async with (
                aiohttp.ClientSession(
                    connector=aiohttp.TCPConnector(ssl=tls, force_close=True),
                    timeout=aiohttp.ClientTimeout(total=TIMEOUT_SECONDS),
                ) as session,
                session.get(
                    f"https://{self._host}:{port}{PATH}", server_hostname=self._server_name
                ) as answer,
            ):
                return None if answer.status == 200 else f"the answer was {answer.status}"
        except TimeoutError:
            return f"no answer within {TIMEOUT_SECONDS:g} s"
        except (aiohttp.ClientError, ssl.SSLError, ValueError) as error:
            return describe_failure(error)
