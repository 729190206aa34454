"""The card-level scheduler, as an extender of kube-scheduler (guide 004) over HTTP.

Source: kube-scheduler's extender v1 protocol, whose keys Go reads in any case. Plays the
open-source extender (`ExtenderCache`), and on Professional nodes the vendor's own scheduler.
"""

import asyncio
import logging
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from http import HTTPStatus
from typing import Any

import orjson
from aiohttp import web

from devcluster import names
from devcluster.apiobject import Object
from devcluster.apiserver import ApiError
from devcluster.client import Client
from devcluster.simulator.cards import Card, choose_cards, count_cards
from devcluster.simulator.extendercache import ExtenderCache, NodeInfo
from devcluster.simulator.ledger import build_entry, is_professional, parse_entry
from devcluster.simulator.objects import Node, Pod, parse_pod
from devcluster.simulator.player import Player

log = logging.getLogger(__name__)

PREFIX = "/gpushare-scheduler"
VERSION = "0.1.0"
LARGEST_REQUEST_BYTES = 64 * 1024 * 1024
LAG_SECONDS = 0.05
RESERVATION_SECONDS = 30  # by then the watch has shown a pod that was bound, or it is gone


class Extender:
    """Answers filter, bind and inspect from the player's state."""

    def __init__(self, client: Client, player: Player) -> None:
        self._client, self._player, self._cluster = client, player, player.cluster
        self._begin(self._cluster.bound_pods())

    async def restart(self) -> None:
        """Forget everything but the existing bound pods, once the player's watch has caught up."""
        while await self._lags():  # noqa: ASYNC110 - what it waits for is the API server's
            await asyncio.sleep(LAG_SECONDS)
        self._begin(self._cluster.bound_pods())

    async def _lags(self) -> bool:
        """Tell whether the player's watch still has a deleted node or bound pod."""
        pods, nodes = {pod.uid for pod in self._cluster.bound_pods()}, self._cluster.node_uids()
        for path, known in (("/api/v1/pods", pods), ("/api/v1/nodes", nodes)):
            items, _ = await self._client.list(path, {})
            if known - {item["metadata"]["uid"] for item in items}:
                return True
        return False

    def _begin(self, pods: Iterable[Pod]) -> None:
        cluster = self._cluster
        self._cache = ExtenderCache(cluster.find_node, cluster.find_unhealthy, pods)
        cluster.on_pod = self._cache.take

    def build_application(self) -> web.Application:
        """Build the HTTP application with its routes; `/restart` is ours."""
        application = web.Application(client_max_size=LARGEST_REQUEST_BYTES)
        application.router.add_post(f"{PREFIX}/filter", self._filter)
        application.router.add_post(f"{PREFIX}/bind", self._bind)
        application.router.add_get(f"{PREFIX}/inspect", self._inspect)
        application.router.add_post("/restart", self._restart)
        application.router.add_get(f"{PREFIX}/version", _version)
        application.router.add_get("/version", _version)
        return application

    async def _filter(self, request: web.Request) -> web.Response:
        arguments = _lower(orjson.loads(await request.read()))
        pod = parse_pod(arguments["pod"])
        fitting, failed = [], {}
        for name in arguments.get("nodenames") or ():
            if refusal := await self._refuse(pod, name):
                failed[name] = refusal
            else:
                fitting.append(name)
        return _answer({"NodeNames": fitting, "FailedNodes": failed, "Error": ""})

    async def _refuse(self, pod: Pod, name: str) -> str:
        await self._read_unoffered(name)
        node = self._cluster.find_node(name)
        if node is None:
            return f'node "{name}" not found'
        if is_professional(node):
            chosen = self._choose_professional(pod, node)
            return chosen if isinstance(chosen, str) else ""
        return self._cache.refuse(pod, self._know(name))

    async def _read_unoffered(self, name: str) -> None:
        """Read a node anew that has no memory in the player's watch, which is behind.

        The scheduler asks about nodes that offer memory. The cache would keep cards without any.
        """
        node = self._cluster.find_node(name)
        if node is not None and node.capacity.get(names.GPU_MEM, "0") == "0":
            with suppress(ApiError):
                self._cluster.nodes.overlay(await self._client.get(f"/api/v1/nodes/{name}"))

    def _know(self, name: str) -> NodeInfo:
        self._cache.catch_up()
        info = self._cache.find(name)
        if info is None:
            raise LookupError(f'node "{name}" not found')
        return info

    async def _bind(self, request: web.Request) -> web.Response:
        arguments = _lower(orjson.loads(await request.read()))
        try:
            await self._place(arguments)
        except (ApiError, OSError, LookupError) as error:
            log.warning("bind %s: %s", arguments.get("podname"), error)
            return _answer({"Error": str(error)}, HTTPStatus.INTERNAL_SERVER_ERROR)
        return _answer({"Error": ""})

    async def _place(self, arguments: Object) -> None:
        path = f"/api/v1/namespaces/{arguments['podnamespace']}/pods/{arguments['podname']}"
        pod = parse_pod(await self._client.get(path))
        node = self._cluster.find_node(arguments["node"])
        if node is None or pod.uid != arguments["poduid"]:
            raise LookupError(f"pod {pod.key} or node {arguments['node']} has been replaced")
        if pod.node or self._cluster.is_reserved(pod):
            # The scheduler gives up after 5 s and tries again, while the first try goes on.
            raise LookupError(f"pod {pod.key} is bound, or about to be")
        professional = is_professional(node)
        chosen = (
            self._choose_professional(pod, node) if professional else self._choose(pod, node.name)
        )
        if isinstance(chosen, str):
            raise LookupError(chosen)
        observed = node if professional else self._know(node.name).node
        entry = build_entry(pod, observed, chosen, time.time())
        placed = replace(pod, node=node.name, annotations={**pod.annotations, **entry})
        self._cluster.reserve(placed)
        if not professional:
            self._cache.add(placed, self._know(node.name))
        try:
            await self._client.patch(path, {"metadata": {"uid": pod.uid, "annotations": entry}})
            await asyncio.sleep(self._player.faults_of(node).bind_delay_seconds)
            await self._client.post(
                f"{path}/binding",
                {
                    "apiVersion": "v1",
                    "kind": "Binding",
                    "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
                    "target": {"apiVersion": "v1", "kind": "Node", "name": node.name},
                },
            )
        except ApiError:
            self._cluster.release(pod)
            if not professional:
                self._cache.take_back(placed)
            raise
        finally:
            # Without an answer, as after a success, only the watch knows what became of it.
            asyncio.get_running_loop().call_later(RESERVATION_SECONDS, self._cluster.release, pod)

    async def _inspect(self, request: web.Request) -> web.Response:
        """List all nodes that the cache has, also deleted ones."""
        self._cache.catch_up()
        nodes = [
            _describe(name, info.memory, _describe_remembered(info))
            for name, info in sorted(self._cache.nodes.items())
        ]
        for name in self._cluster.node_names():
            node = self._cluster.find_node(name)
            if node and is_professional(node) and node.capacity.get(names.GPU_MEM, "0") != "0":
                pods = self._cluster.ledger_of(name)
                cards = count_cards(node, pods)
                devices = _describe_cards(cards, pods)
                nodes.append(_describe(name, sum(card.total for card in cards), devices))
        return _answer({"nodes": nodes})

    async def _restart(self, request: web.Request) -> web.Response:
        await self.restart()
        return web.Response()

    def _choose(self, pod: Pod, node: str) -> tuple[int, ...] | str:
        chosen = self._cache.choose(pod, self._know(node))
        return chosen if isinstance(chosen, str) else (chosen,)

    def _choose_professional(self, pod: Pod, node: Node) -> tuple[int, ...] | str:
        return choose_cards(pod, node, count_cards(node, self._cluster.ledger_of(node.name)))


async def _version(request: web.Request) -> web.Response:
    return web.json_response({"version": VERSION})


def _describe(name: str, memory: int, devices: list[Object]) -> Object:
    used = sum(device["usedGPU"] for device in devices)
    return {"name": name, "totalGPU": memory, "usedGPU": used, "devs": devices}


def _describe_remembered(info: NodeInfo) -> list[Object]:
    return [
        {
            "id": card,
            "totalGPU": device.total,
            "usedGPU": device.used,
            "pods": [_describe_pod(pod, pod.demand(names.GPU_MEM)) for pod in device.pods.values()],
        }
        for card, device in enumerate(info.devices)
    ]


def _describe_cards(cards: Iterable[Card], pods: tuple[Pod, ...]) -> list[Object]:
    devices: dict[int, Object] = {
        card.index: {"id": card.index, "totalGPU": card.total, "usedGPU": card.used, "pods": []}
        for card in cards
    }
    for pod in pods:
        entry = parse_entry(pod)
        for card, units in (entry.units if entry else {}).items():
            if card in devices and not pod.terminating:
                devices[card]["pods"].append(_describe_pod(pod, units))
    return [*devices.values()]


def _describe_pod(pod: Pod, units: int) -> Object:
    return {"name": pod.name, "namespace": pod.namespace, "usedGPU": units}


def _lower(arguments: dict[str, Any]) -> Object:
    return {key.lower(): value for key, value in arguments.items()}


def _answer(body: Object, status: int = HTTPStatus.OK) -> web.Response:
    return web.Response(body=orjson.dumps(body), status=status, content_type="application/json")
