"""Builds clusters as commands read them, from objects of the API server."""

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gpushare.api.pruned.cluster import Cluster, Kind, keep_object
from gpushare.cli.cluster.snapshot_file import build_snapshot
from gpushare.names import SETTINGS_PREFIX
from tests.kit.cluster.command_line import run_command
from tests.kit.values.manifests import Json, build_pool

READ_AT = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def build_found_pool(name: str = "training", **spec: Any) -> Json:
    """Build a pool as stored by the API server."""
    pool = build_pool(name, **spec)
    pool["metadata"] |= {"uid": name, "creationTimestamp": "2026-02-01T00:00:00Z", "generation": 1}
    return pool


def build_found_webhook(**variables: str) -> Json:
    """Build the webhook's Deployment with these variables of its container."""
    env = [{"name": f"{SETTINGS_PREFIX}{key}", "value": text} for key, text in variables.items()]
    containers = [{"name": "gpushare", "env": env}]
    return {
        "metadata": {"namespace": "gpushare-system", "name": "gpushare-webhook", "uid": "webhook"},
        "spec": {"template": {"spec": {"containers": containers}}},
    }


def build_found_cluster(**kinds: Iterable[Json]) -> Cluster:
    """Build a cluster of the kept fields of these objects."""
    kept: Any = {
        kind: tuple(found for raw in items if (found := keep_object(Kind(kind), raw)) is not None)
        for kind, items in kinds.items()
    }
    return Cluster(READ_AT, **kept)


class Asked:
    """Runs a command for a cluster, whose snapshot is written into a folder."""

    def __init__(self, folder: Path, *command: str) -> None:
        self._file, self._command = folder / "cluster.json", command

    def say(self, cluster: Cluster, *arguments: str) -> str:
        self._file.write_bytes(build_snapshot(cluster))
        ended = run_command(*self._command, *arguments, "--snapshot", str(self._file))
        assert (ended.code, ended.err) == (0, ""), ended
        return ended.out

    def tell(self, cluster: Cluster, *arguments: str) -> Any:
        """Run the command with `-o json` and return the document."""
        return json.loads(self.say(cluster, "-o", "json", *arguments))

    def __call__(self, *arguments: str, **kinds: Iterable[Json]) -> str:
        return self.say(build_found_cluster(**kinds), *arguments)
