"""Plain calls to a cluster's API server, as its administrator.

kubectl costs a process of 60 MB for each call; here connections are kept and used again.
"""

import http.client
import ssl
import time
from collections import deque
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson

from devcluster.errors import DevclusterError
from devcluster.kubeconfig import read_own_kubeconfig

_TIMEOUT_SECONDS = 60
_TRIES = 10  # client-go's


class ApiError(DevclusterError):
    """The API server refused; ``status`` is its HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class ApiServer:
    """The API server that a kubeconfig of a devcluster names; safe to use from several threads."""

    def __init__(self, kubeconfig: Path) -> None:
        config = read_own_kubeconfig(kubeconfig)
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        self._host = urlsplit(cluster["server"]).netloc
        self._tls = ssl.create_default_context(cafile=cluster["certificate-authority"])
        self._tls.load_cert_chain(user["client-certificate"], user["client-key"])
        self._idle: deque[http.client.HTTPSConnection] = deque()

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Send ``body`` as JSON (a merge patch if ``method`` is PATCH); return the JSON answer.

        A 429 with Retry-After, as while a kind's storage starts, is retried as by kubectl. Raises
        :class:`ApiError` for a status of 400 or more, OSError when nobody answers.
        """
        for tries_left in reversed(range(_TRIES)):
            status, answer, retry_after_seconds = self._exchange(method, path, body)
            if not (status == 429 and retry_after_seconds and tries_left):
                break
            time.sleep(retry_after_seconds)
        if status >= 400:
            raise ApiError(status, f"{method} {path}: {status} {_message(answer)}")
        return orjson.loads(answer) if answer else None

    def is_ready(self) -> bool:
        """Tell whether ``/readyz`` answers ok, so that start-up hooks (RBAC's roles) are done."""
        try:
            return self._exchange("GET", "/readyz", None)[0] == 200
        except OSError:
            return False

    def exists(self, path: str) -> bool:
        """Tell whether the object at ``path`` exists."""
        try:
            self.call("GET", path)
        except ApiError as error:
            if error.status == 404:
                return False
            raise
        return True

    def _exchange(self, method: str, path: str, body: Any) -> tuple[int, bytes, int]:
        patch = "application/merge-patch+json"
        headers = {
            "Accept": "application/json",
            "Content-Type": patch if method == "PATCH" else "application/json",
            "User-Agent": "devcluster",
        }
        data = orjson.dumps(body) if body is not None else None
        connection = self._connection()
        reused = connection.sock is not None
        try:
            answer = _send(connection, method, path, data, headers)
        except (ConnectionError, ssl.SSLEOFError):
            connection.close()
            if not reused:
                raise
            # The server may close a connection while it is idle; it never saw this request.
            return self._exchange(method, path, body)
        except BaseException:
            connection.close()
            raise
        self._idle.append(connection)
        return answer

    def close(self) -> None:
        """Close the connections; the next call opens a new one."""
        while self._idle:
            self._idle.pop().close()

    def _connection(self) -> http.client.HTTPSConnection:
        try:
            return self._idle.pop()
        except IndexError:
            return http.client.HTTPSConnection(
                self._host, context=self._tls, timeout=_TIMEOUT_SECONDS
            )


def _send(
    connection: http.client.HTTPSConnection,
    method: str,
    path: str,
    data: bytes | None,
    headers: dict[str, str],
) -> tuple[int, bytes, int]:
    connection.request(method, path, data, headers)
    response = connection.getresponse()
    return response.status, response.read(), int(response.headers.get("Retry-After", 0))


def _message(answer: bytes) -> str:
    try:
        message: str = orjson.loads(answer)["message"]
    except (ValueError, KeyError, TypeError):
        return answer.decode(errors="replace").strip()
    return message
