"""Kubeconfigs of accounts: who has another's token has another's rights."""

from pathlib import Path

import yaml

from devcluster.kubeconfig import build_token_kubeconfig, read_own_kubeconfig
from tests.kit.bench import Bench


def write_kubeconfig(bench: Bench, file: Path, account: str, *, server: str = "") -> Path:
    """That of the ServiceAccount at the path `account`; it leads to `server`, which may be a proxy:
    that passes tokens on."""
    own = read_own_kubeconfig(bench.cluster.kubeconfig)
    answer = bench.call("POST", f"{account}/token", {"spec": {}})
    config = build_token_kubeconfig(
        own,
        token=answer["status"]["token"],
        namespace="default",
        server=server or own["clusters"][0]["cluster"]["server"],
    )
    file.write_text(yaml.safe_dump(config))
    return file
