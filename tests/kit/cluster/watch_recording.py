"""Records every state of objects by a watch."""

import http.client
import socket
import ssl
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Self
from urllib.parse import urlsplit

import orjson

from devcluster.cluster import Cluster
from devcluster.kubeconfig import read_own_kubeconfig
from tests.kit.values.manifests import Json

_CATCH_UP_SECONDS = 60


class Recording:
    """All events of the objects under `path`, from entering the block until leaving it.

    `history` holds the objects in the order in which the API server had them: first those that
    were there, then each change (a deleted one with `"deleted": True` in its metadata).
    """

    def __init__(self, cluster: Cluster, path: str) -> None:
        config = read_own_kubeconfig(cluster.kubeconfig)
        server, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        tls = ssl.create_default_context(cafile=server["certificate-authority"])
        tls.load_cert_chain(user["client-certificate"], user["client-key"])
        self._connection = http.client.HTTPSConnection(
            urlsplit(server["server"]).netloc, context=tls
        )
        self._cluster, self._path = cluster, path
        self._thread = threading.Thread(target=self._read, name=f"watch {path}", daemon=True)
        self._response: http.client.HTTPResponse | None = None
        self.history: list[Json] = []
        self.last_event_at: list[datetime] = []
        """Times at which the events arrived."""

    def __enter__(self) -> Self:
        listed = self._cluster.api.call("GET", self._path)
        self.last_event_at += [datetime.now(UTC) for _ in listed["items"]]
        self.history += listed["items"]
        version = listed["metadata"]["resourceVersion"]
        self._connection.request("GET", f"{self._path}?watch=true&resourceVersion={version}")
        self._response = self._connection.getresponse()
        self._thread.start()
        return self

    def __exit__(self, error: type[BaseException] | None, *more: object) -> None:
        if error is None:
            self._catch_up()
        if self._connection.sock is not None:
            self._connection.sock.shutdown(socket.SHUT_RDWR)
        self._thread.join(_CATCH_UP_SECONDS)
        self._connection.close()

    def most_at_once(self, holds: Callable[[Json], bool]) -> set[str]:
        """Find the largest set of objects, by name, for which `holds` was true at one moment."""
        current: set[str] = set()
        most: set[str] = set()
        for item in self.history:
            name = item["metadata"]["name"]
            if holds(item) and not item["metadata"].get("deleted"):
                current.add(name)
            else:
                current.discard(name)
            if len(current) > len(most):
                most = set(current)
        return most

    def _catch_up(self) -> None:
        """Wait until the current version of every object was recorded."""
        present = self._cluster.api.call("GET", self._path)["items"]
        wanted = {item["metadata"]["resourceVersion"] for item in present}
        deadline = time.monotonic() + _CATCH_UP_SECONDS
        while not wanted <= {item["metadata"]["resourceVersion"] for item in self.history}:
            if time.monotonic() > deadline:
                raise AssertionError(f"the watch of {self._path} fell behind")
            time.sleep(0.05)

    def _read(self) -> None:
        assert self._response is not None
        try:
            for line in self._response:
                event = orjson.loads(line)
                if event["type"] == "DELETED":
                    event["object"]["metadata"]["deleted"] = True
                self.last_event_at.append(datetime.now(UTC))
                self.history.append(event["object"])
        except (OSError, ValueError, http.client.HTTPException):
            # The block was left.
            return
