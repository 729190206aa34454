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
from devcluster.kubeconfig import expect_own_context

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
