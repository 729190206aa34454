"""Plays kube-proxy: forwards connections to a Service's address to one of its ready pods."""

import asyncio
import contextlib
import itertools
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from devcluster.apiobject import Object
from devcluster.client import Client
from devcluster.mirror import Mirror
from devcluster.processnode import logs
from devcluster.processnode.addresses import reach
from devcluster.relay import Connection, relay

log = logging.getLogger(__name__)

_SERVICE_OF = "kubernetes.io/service-name"
_HEAD_SECONDS = 5
_ACCEPTED = b"HTTP/1.1 200 OK\r\n\r\n"
_REFUSED = b"HTTP/1.1 503 Service Unavailable\r\n\r\n"


@dataclass(frozen=True)
class Service:
    """A Service's address, and the names of its ports by number."""

    key: tuple[str, str]
    """Namespace and name of the Service."""
    address: str
    ports: Mapping[int, str]
    version: int


@dataclass(frozen=True)
class Endpoints:
    """An EndpointSlice of a Service."""

    name: str
    service: tuple[str, str]
    """Namespace and name of the Service."""
    ready: tuple[str, ...]
    """Addresses of pods that get new connections."""
    ending: tuple[str, ...]
    """Addresses of pods that are being deleted and still serve, used if none is ready."""
    ports: Mapping[str, int]
    version: int


class ServiceProxy:
    """Listens at the unix `socket` for the API server's connections to Services and nodes (see
    devcluster.controlplane); those to a node's kubelet go to the socket `kubelet`.

    Ready pods are those of the EndpointSlices, as for kube-proxy. Pods get connections in turn, and
    existing connections stay. Connections to a Service without pods are refused at once.
    """

    def __init__(self, client: Client, socket: str, *, kubelet: str) -> None:
        self._socket, self._kubelet = socket, kubelet
        self._turns = itertools.count()
        self._services: dict[str, Service] = {}
        self._slices: dict[str, Endpoints] = {}
        self._mirrors = (
            Mirror(client, "/api/v1/services", {}, parse_service, self._change_service),
            Mirror(
                client,
                "/apis/discovery.k8s.io/v1/endpointslices",
                {},
                parse_endpoints,
                self._change_endpoints,
            ),
        )

    async def run(self) -> None:
        """Follow Services and forward connections until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for mirror in self._mirrors:
                tasks.create_task(mirror.run())
            server = await asyncio.start_unix_server(self._accept, self._socket)
            async with server:
                await server.serve_forever()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(OSError, asyncio.IncompleteReadError):
            async with asyncio.timeout(_HEAD_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
            _, target, _ = head.decode().split(" ", 2)
            try:
                connection = await self._connect(target)
            except OSError as error:
                log.info("%s: %s", target, error)
                writer.write(_REFUSED)
                await writer.drain()
                return
            writer.write(_ACCEPTED)
            await relay((reader, writer), connection)

    async def _connect(self, target: str) -> Connection:
        """Connect to `target`, a host and a port. Raises OSError where nothing is behind it."""
        if target.endswith(f":{logs.PORT}"):
            return await asyncio.open_unix_connection(self._kubelet)
        backends = self._find(target)
        if not backends:
            raise ConnectionRefusedError("nobody is ready")
        host, port = backends[next(self._turns) % len(backends)]
        return await asyncio.open_connection(reach(host), port)

    def _find(self, target: str) -> list[tuple[str, int]]:
        """Find the pods, by address and port, behind `target`, a Service's address and port."""
        address, _, port = target.rpartition(":")
        service = self._services.get(address)
        return find_backends(service, int(port), self._slices.values()) if service else []

    def _change_service(self, old: Service | None, new: Service | None) -> None:
        if old is not None:
            self._services.pop(old.address, None)
        if new is not None:
            self._services[new.address] = new

    def _change_endpoints(self, old: Endpoints | None, new: Endpoints | None) -> None:
        if old is not None:
            self._slices.pop(old.name, None)
        if new is not None:
            self._slices[new.name] = new


def find_backends(
    service: Service, port: int, slices: Iterable[Endpoints]
) -> list[tuple[str, int]]:
    """List the pods, by address and port, that serve a `port` of the Service."""
    name = service.ports.get(port)
    own = [each for each in slices if each.service == service.key and name in each.ports]
    if name is None:
        return []
    ready = [(host, each.ports[name]) for each in own for host in each.ready]
    return ready or [(host, each.ports[name]) for each in own for host in each.ending]


def parse_service(raw: Object) -> Service | None:
    """Parse a Service; None for one without an address."""
    meta, spec = raw["metadata"], raw["spec"]
    if spec.get("clusterIP", "None") in ("", "None"):
        return None
    return Service(
        key=(meta["namespace"], meta["name"]),
        address=spec["clusterIP"],
        ports={port["port"]: port.get("name", "") for port in spec.get("ports", ())},
        version=int(meta["resourceVersion"]),
    )


def parse_endpoints(raw: Object) -> Endpoints:
    """Parse an EndpointSlice as kube-proxy does."""
    meta = raw["metadata"]
    ready, ending = [], []
    for endpoint in raw.get("endpoints") or ():
        conditions = endpoint.get("conditions", {})
        if conditions.get("ready", True):
            ready += endpoint["addresses"]
        elif conditions.get("serving") and conditions.get("terminating"):
            ending += endpoint["addresses"]
    return Endpoints(
        name=f"{meta['namespace']}/{meta['name']}",
        service=(meta["namespace"], meta.get("labels", {}).get(_SERVICE_OF, "")),
        ready=tuple(ready),
        ending=tuple(ending),
        ports={port.get("name") or "": port["port"] for port in raw.get("ports") or ()},
        version=int(meta["resourceVersion"]),
    )
