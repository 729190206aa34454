"""Calls with a real token of the operator's, by somebody who is not the operator."""

import http.client
import ssl
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson

from devcluster.installation import NAMESPACE
from devcluster.kubeconfig import read_own_kubeconfig
from tests.kit.bench import Bench
from tests.kit.cluster.audit_log import THIEF

MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
_TIMEOUT_SECONDS = 30


class StolenToken:
    """A token of one of the chart's ServiceAccounts, as one would find it in a Pod."""

    def __init__(self, bench: Bench, account: str) -> None:
        self.account = account
        self._bench = bench
        path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account}/token"
        self._token = bench.call("POST", path, {"spec": {}})["status"]["token"]
        cluster = read_own_kubeconfig(bench.cluster.kubeconfig)["clusters"][0]["cluster"]
        self._host = urlsplit(cluster["server"]).netloc
        authority = Path(cluster["certificate-authority"])
        self._tls = ssl.create_default_context(cafile=str(authority))

    def send(
        self, method: str, path: str, body: Any = None, *, content_type: str = "application/json"
    ) -> tuple[int, str]:
        """The status of the answer, and its sentence or body."""
        headers = {
            "Authorization": f"Bearer {self._token}",
            "Content-Type": content_type,
            "User-Agent": THIEF,
        }
        data = None if body is None else orjson.dumps(body)
        connection = http.client.HTTPSConnection(
            self._host, context=self._tls, timeout=_TIMEOUT_SECONDS
        )
        with closing(connection):
            connection.request(method, path, data, headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    @contextmanager
    def with_every_right(self) -> Iterator[None]:
        """For a block RBAC keeps the account from nothing, as after an administrator's mistake."""
        binding = ("clusterrolebinding", f"every-right-for-{self.account}")
        to = f"--serviceaccount={NAMESPACE}:{self.account}"
        kubectl = self._bench.cluster.kubectl
        kubectl("create", *binding, "--clusterrole=cluster-admin", to)
        try:
            yield
        finally:
            kubectl("delete", *binding)
