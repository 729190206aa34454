"""Whom the API server takes us for, by every kind of kubeconfig: as it takes kubectl."""

import asyncio
import base64
import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from devcluster.kubeconfig import read_own_kubeconfig
from gpushare.kube.auth.kubeconfig import SERVICE_ACCOUNT, load_own_credentials
from gpushare.kube.client import ApiClient, connect
from gpushare.kube.errors import ApiError
from gpushare.kube.session import load_credentials
from tests.kit.bench import Bench
from tests.kit.cluster.kubeconfigs import (
    build_answer,
    build_plugin_user,
    write_kubeconfig,
    write_plugin,
)

REVIEWS = "apis/authentication.k8s.io/v1/selfsubjectreviews"
REVIEW = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
VISITOR = "system:serviceaccount:default:visitor"
ADMIN = "kwok-admin"
POLL_SECONDS = 0.1


@dataclass(frozen=True)
class Desk:
    """Where kubeconfigs for this cluster are written."""

    bench: Bench
    folder: Path

    @property
    def cluster(self) -> dict[str, Any]:
        admin = read_own_kubeconfig(self.bench.cluster.kubeconfig)
        found: dict[str, Any] = admin["clusters"][0]["cluster"]
        return found

    @property
    def pair(self) -> tuple[Path, Path]:
        """The administrator's certificate and key."""
        user = read_own_kubeconfig(self.bench.cluster.kubeconfig)["users"][0]["user"]
        return Path(user["client-certificate"]), Path(user["client-key"])

    def write(self, user: dict[str, Any], **cluster: object) -> Path:
        return write_kubeconfig(self.folder / "config", user, cluster=self.cluster | cluster)

    def issue_token(self) -> str:
        """A token of the visitor's account."""
        path = f"{ACCOUNTS}/visitor/token"
        token: str = self.bench.call("POST", path, {"spec": {}})["status"]["token"]
        return token

    def revoke_tokens(self) -> None:
        """Make the account anew: no token that it had is taken any more."""
        self.bench.call("DELETE", f"{ACCOUNTS}/visitor")
        self.bench.call("POST", ACCOUNTS, {"metadata": {"name": "visitor"}})

    def ask_kubectl(self, *paths: Path) -> str:
        """Whom the API server takes kubectl for."""
        cluster = self.bench.cluster
        command = [str(cluster.binaries / "kubectl"), "auth", "whoami"]
        environ = cluster.environment | {"KUBECONFIG": ":".join(map(str, paths))}
        ended = subprocess.run(
            [*command, "-o", "json"], env=environ, capture_output=True, text=True, check=False
        )
        assert ended.returncode == 0, ended.stderr
        name: str = json.loads(ended.stdout)["status"]["userInfo"]["username"]
        return name


@pytest.fixture
def desk(bench: Bench, tmp_path: Path) -> Iterator[Desk]:
    bench.call("POST", ACCOUNTS, {"metadata": {"name": "visitor"}})
    yield Desk(bench, tmp_path)
    bench.call("DELETE", f"{ACCOUNTS}/visitor")


async def ask(api: ApiClient) -> str:
    """Whom the API server takes us for."""
    name: str = (await api.create(REVIEWS, REVIEW))["status"]["userInfo"]["username"]
    return name


async def until_refused(api: ApiClient) -> None:
    """The API server remembers for some seconds whom it knew."""
    try:
        while True:
            await ask(api)
            await asyncio.sleep(POLL_SECONDS)
    except ApiError as error:
        if error.status != 401:
            raise


async def expect_same(desk: Desk, who: str, *paths: Path) -> None:
    environ = {"KUBECONFIG": ":".join(map(str, paths))}
    async with connect(await load_own_credentials(None, None, environ)) as api:
        assert await ask(api) == who
    assert desk.ask_kubectl(*paths) == who


async def test_users_are_taken_for_whom_kubectl_is_taken_for(desk: Desk) -> None:
    pair = dict(zip(("client-certificate", "client-key"), desk.pair, strict=True))
    files = {field: str(path) for field, path in pair.items()}
    data = {
        f"{field}-data": base64.b64encode(path.read_bytes()).decode()
        for field, path in pair.items()
    }
    await expect_same(desk, VISITOR, desk.write({"token": desk.issue_token()}))
    await expect_same(desk, ADMIN, desk.write(files))
    await expect_same(desk, ADMIN, desk.write(data))
    other = {"as": "somebody", "as-groups": ["a"], "as-user-extra": {"acme.com/scope": ["b"]}}
    await expect_same(desk, "somebody", desk.write(files | other))
    (desk.folder / "token").write_text(f"{desk.issue_token()}\n")
    await expect_same(desk, VISITOR, desk.write({"tokenFile": "token"}))


async def test_a_plugin_is_asked_again_when_its_token_is_not_taken_any_more(desk: Desk) -> None:
    cluster = desk.bench.cluster
    kubectl = f"{cluster.binaries}/kubectl --kubeconfig={cluster.kubeconfig}"
    answer = build_answer(token="$token")
    script = f"token=$({kubectl} create token visitor) || exit 5\ncat <<END\n{answer}\nEND"
    path = desk.write(build_plugin_user(write_plugin(desk.folder / "plugin", script)))
    async with connect(await load_own_credentials(path, None, {})) as api:
        assert await ask(api) == VISITOR
        desk.revoke_tokens()
        await until_refused(api)
        assert await ask(api) == VISITOR
    assert desk.ask_kubectl(path) == VISITOR


async def test_a_command_goes_by_the_proxy_of_its_kubeconfig_or_else_of_the_environment(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, its = "http://127.0.0.1:1", "http://127.0.0.1:2"
    monkeypatch.setenv("https_proxy", ours)
    server = {"server": "https://api.behind.example:6443"}
    for cluster, proxy in ((server, ours), (server | {"proxy-url": its}, its)):
        path = desk.write({"token": "t"}, **cluster)
        assert (await load_own_credentials(path, None)).proxy == proxy
    path = desk.write({"token": "t"}, **server)
    controller = await load_credentials(path, SERVICE_ACCOUNT, os.environ)
    assert controller.proxy is None, "the controller does not look for one in the environment"
