"""Reads a cluster for a command, from the API server or from a snapshot."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, TypeVar

from gpushare.api.pruned.cluster import Cluster, Kind, Subject
from gpushare.cli.cluster.snapshot_file import parse_snapshot
from gpushare.cli.errors.failures import build_unknown
from gpushare.cli.exit_codes import CommandError, Exit

if TYPE_CHECKING:
    from gpushare.kube.client import ApiClient


Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class Access:
    """The source of a cluster's objects, as the options name it."""

    kubeconfig: Path | None = None
    context: str | None = None
    snapshot: Path | None = None

    def read(self, *kinds: Kind) -> Cluster:
        """Read what the cluster has of these kinds.

        Raises `CommandError`, and what else `errors_as_sentences` knows: nothing that this returns
        is a part of a cluster.
        """
        if self.snapshot is not None:
            return self.read_snapshot(self.snapshot)
        from gpushare.cli.cluster.objects import read_cluster

        return self._run(lambda api: read_cluster(api, kinds, datetime.now(UTC)))

    def read_about(self, subject: Subject, *kinds: Kind) -> Cluster:
        """Read these kinds for a question about one object; what may not be listed is read by name
        if allowed, and is `unread` otherwise."""
        if self.snapshot is not None:
            return self.read_snapshot(self.snapshot)
        from gpushare.cli.cluster.named_objects import read_about

        return self._run(lambda api: read_about(api, kinds, subject, datetime.now(UTC)))

    def read_namespace(self, namespace: str, *kinds: Kind) -> Cluster:
        """Read these kinds, and the pods of one namespace; other kinds that may not be listed are
        `unread`. Raises `CommandError` where the pods may not be."""
        if self.snapshot is not None:
            return self.read_snapshot(self.snapshot)
        from gpushare.cli.cluster.named_objects import read_about

        subject, now = Subject(Kind.NAMESPACES, namespace), datetime.now(UTC)
        cluster = self._run(lambda api: read_about(api, kinds, subject, now, pods_of=namespace))
        if Kind.PODS in cluster.unread:
            why = f"a right is missing ({cluster.unread[Kind.PODS]})"
            raise CommandError(Exit.FORBIDDEN, why)
        return cluster

    def read_node(self, name: str) -> Cluster:
        """Read only that node, and the pods bound to it. Raises `CommandError` if it is unknown."""
        if self.snapshot is None:
            cluster = self._run(lambda api: _read_node(api, name))
        else:
            cluster = self.read_snapshot(self.snapshot)
        known = [node["metadata"]["name"] for node in cluster.nodes]
        if name not in known:
            raise build_unknown("node", name, known)
        return cluster

    def read_snapshot(self, snapshot: Path) -> Cluster:
        """Read the cluster in that file. Raises `CommandError`."""
        if self.kubeconfig is not None or self.context is not None:
            raise CommandError(
                Exit.USAGE, "--snapshot reads no cluster: omit --kubeconfig and --context"
            )
        try:
            return parse_snapshot(snapshot.read_bytes(), str(snapshot))
        except OSError as error:
            message = f"the snapshot {snapshot} can't be read: {error.strerror}"
            raise CommandError(Exit.FAILURE, message) from error

    def find_namespace(self, asked: str | None) -> str:
        """Find the namespace: the one asked for, or that of the context or Pod, or `default`."""
        if asked is not None or self.snapshot is not None:
            return asked or "default"
        from gpushare.kube.auth.kubeconfig import find_own_namespace

        return find_own_namespace(self.kubeconfig, self.context)

    def find_source(self) -> str:
        """Name what is read, for a user: the context, or the cluster that a Pod is in."""
        from gpushare.kube.auth.kubeconfig import find_context

        found = find_context(self.kubeconfig, self.context)
        return f"context {found.name}" if found else "the cluster of this Pod"

    def list_options(self) -> str:
        """List the options of a command that reads the same, for a shell."""
        given = {
            "--kubeconfig": self.kubeconfig,
            "--context": self.context,
            "--snapshot": self.snapshot,
        }
        return " ".join(f"{name} {quote(str(value))}" for name, value in given.items() if value)

    async def connect(self) -> "ApiClient":
        """Connect to the user's API server; to be used as a context manager.

        Raises `CredentialsError`; nothing is sent yet.
        """
        from gpushare.kube.auth.kubeconfig import load_own_credentials
        from gpushare.kube.client import connect

        return connect(await load_own_credentials(self.kubeconfig, self.context))

    def _run(self, read: Callable[["ApiClient"], Awaitable[Cluster]]) -> Cluster:
        async def run() -> Cluster:
            async with await self.connect() as api:
                return await read(api)

        return run_coroutine(run())


def run_coroutine(work: Coroutine[Any, Any, Found]) -> Found:
    """Run `work` in an event loop of its own, and return or raise what it does.

    Its result is not the loop's own: at the end Python's signal module writes that as text, which
    takes seconds for a large cluster.
    """
    found: list[Found] = []

    async def run() -> None:
        found.append(await work)

    asyncio.run(run())
    return found[0]


def check_namespace(cluster: Cluster, namespace: str | None) -> None:
    """Raise `CommandError` for a namespace that is not in `cluster`, read with namespaces."""
    known = [raw["metadata"]["name"] for raw in cluster.namespaces]
    if namespace is not None and namespace not in known:
        raise build_unknown("namespace", namespace, known)


async def _read_node(api: "ApiClient", name: str) -> Cluster:
    from gpushare.cli.cluster.named_objects import read_about
    from gpushare.cli.cluster.objects import read_cluster

    now, subject = datetime.now(UTC), Subject(Kind.NODES, name)
    cluster = await read_about(api, (Kind.NODES, Kind.PODS), subject, now, node=name)
    if cluster.nodes or Kind.NODES in cluster.unread:
        return cluster
    # Their names are for a suggestion.
    return await read_cluster(api, (Kind.NODES,), now)
