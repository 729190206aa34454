"""Nothing here acts on a cluster that is not a devcluster."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from devcluster.apiserver import ApiServer
from devcluster.client import Client
from devcluster.cluster import Cluster
from devcluster.errors import ForeignContextError
from devcluster.folder import State
from devcluster.kubeconfig import (
    build_token_kubeconfig,
    expect_own_context,
    write_service_account,
)

OWN = "kwok-devcluster-demo"


def kubeconfig(
    *, context: str = OWN, current: str = OWN, server: str = "https://127.0.0.1:21002"
) -> dict[str, Any]:
    return {
        "current-context": current,
        "contexts": [{"name": context, "context": {"cluster": context, "user": context}}],
        "clusters": [{"name": context, "cluster": {"server": server}}],
        "users": [{"name": context, "user": {"client-key": "/k"}}],
    }


@pytest.mark.parametrize(
    "foreign",
    [
        kubeconfig(current="prod"),
        kubeconfig(context="prod"),
        kubeconfig(current="kwok-mine", context="kwok-mine"),
        kubeconfig(server="https://10.0.0.1:6443"),
        kubeconfig(server="https://127.0.0.1.example.com:6443"),
        {},
    ],
    ids=["current", "another context", "someone's kwok", "remote", "remote lookalike", "empty"],
)
def test_a_kubeconfig_that_leads_elsewhere_is_refused(foreign: dict[str, Any]) -> None:
    with pytest.raises(ForeignContextError, match="Nothing was sent"):
        expect_own_context(foreign, where=Path("k"))


@pytest.mark.parametrize("connect", [ApiServer, partial(Client, user_agent="t")])
def test_no_client_is_made_for_another_cluster(
    tmp_path: Path, connect: Callable[[Path], object]
) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump(kubeconfig(current="prod")))
    with pytest.raises(ForeignContextError):
        connect(file)


def test_kubectl_is_not_even_started_for_another_cluster(tmp_path: Path) -> None:
    cluster = Cluster("demo", tmp_path)
    cluster._folder.record(State("demo", binaries=str(tmp_path), first_port=21000))
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n")
    kubectl.chmod(0o755)
    cluster.kubeconfig.write_text(yaml.safe_dump(kubeconfig(current="prod")))
    with pytest.raises(ForeignContextError, match="prod"):
        cluster.kubectl("get", "nodes")
    assert not (tmp_path / "started").exists()


def test_an_accounts_kubeconfig_has_its_token_and_not_the_administrators_key() -> None:
    url = "https://127.0.0.1:21010"
    account = build_token_kubeconfig(kubeconfig(), token="t", namespace="n", server=url)
    assert account["users"] == [{"name": OWN, "user": {"token": "t"}}]
    (cluster,) = account["clusters"]
    assert cluster["cluster"] == kubeconfig()["clusters"][0]["cluster"] | {"server": url}
    expect_own_context(account, where=Path("k"))


def test_a_pod_gets_a_token_a_ca_and_the_address(tmp_path: Path) -> None:
    ca = tmp_path / "pki.crt"
    ca.write_text("a CA")
    admin = kubeconfig()
    admin["clusters"][0]["cluster"] |= {
        "server": "https://127.0.0.1:21000",
        "certificate-authority": str(ca),
    }
    folder = tmp_path / "account"
    assert write_service_account(admin, folder, token="t") == {
        "KUBERNETES_SERVICE_HOST": "127.0.0.1",
        "KUBERNETES_SERVICE_PORT": "21000",
        "GPUSHARE_SERVICE_ACCOUNT": str(folder),
    }
    assert ((folder / "token").read_text(), (folder / "ca.crt").read_text()) == ("t", "a CA")
