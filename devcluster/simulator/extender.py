"""The card-level scheduler, as an extender of kube-scheduler (guide 004) over HTTP.

Source: kube-scheduler's extender v1 protocol, whose keys Go reads in any case.
"""

import asyncio
import logging
import time
from dataclasses import replace
from typing import Any

import orjson
from aiohttp import web

from devcluster import names
from devcluster.apiobject import Object
from devcluster.apiserver import ApiError
from devcluster.client import Client
from devcluster.simulator.cards import choose_cards, count_cards
from devcluster.simulator.ledger import build_entry, parse_entry
from devcluster.simulator.objects import Node, Pod, parse_pod
from devcluster.simulator.player import Player

log = logging.getLogger(__name__)

PREFIX = "/gpushare-scheduler"
VERSION = "0.1.0"
LARGEST_REQUEST_BYTES = 64 * 1024 * 1024
RESERVATION_SECONDS = 30  # by then the watch has shown a pod that was bound, or it is gone


class Extender:
    """Answers filter, bind and inspect from the player's world."""

    def __init__(self, client: Client, player: Player) -> None:
        self._client, self._player, self._world = client, player, player.world

    def build_application(self) -> web.Application:
        """Return the HTTP application with its four routes."""
        application = web.Application(client_max_size=LARGEST_REQUEST_BYTES)
        application.router.add_post(f"{PREFIX}/filter", self._filter)
        application.router.add_post(f"{PREFIX}/bind", self._bind)
        application.router.add_get(f"{PREFIX}/inspect", self._inspect)
        application.router.add_get(f"{PREFIX}/version", _version)
        application.router.add_get("/version", _version)
        return application

    async def _filter(self, request: web.Request) -> web.Response:
        arguments = _lower(orjson.loads(await request.read()))
        pod = parse_pod(arguments["pod"])
        fitting, failed = [], {}
        for name in arguments.get("nodenames") or ():
            node = self._world.find_node(name)
            chosen = self._choose(pod, node) if node else f"node {name} is not known yet"
            if isinstance(chosen, str):
                failed[name] = chosen
            else:
                fitting.append(name)
        return _answer({"nodenames": fitting, "failedNodes": failed, "error": ""})

    async def _bind(self, request: web.Request) -> web.Response:
        arguments = _lower(orjson.loads(await request.read()))
        try:
            await self._place(arguments)
        except (ApiError, OSError, LookupError) as error:
            log.warning("bind %s: %s", arguments.get("podname"), error)
            return _answer({"error": str(error)})
        return _answer({"error": ""})

    async def _place(self, arguments: Object) -> None:
        path = f"/api/v1/namespaces/{arguments['podnamespace']}/pods/{arguments['podname']}"
        pod = parse_pod(await self._client.get(path))
        node = self._world.find_node(arguments["node"])
        if node is None or pod.uid != arguments["poduid"]:
            raise LookupError(f"pod {pod.key} or node {arguments['node']} has been replaced")
        if pod.node or self._world.is_reserved(pod):
            # The scheduler gives up after 5 s and tries again, while the first try goes on.
            raise LookupError(f"pod {pod.key} is bound, or about to be")
        chosen = self._choose(pod, node)
        if isinstance(chosen, str):
            raise LookupError(chosen)
        entry = build_entry(pod, node, chosen, time.time())
        self._world.reserve(replace(pod, node=node.name, annotations={**pod.annotations, **entry}))
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
            self._world.release(pod)
            raise
        finally:
            # Without an answer, as after a success, only the watch knows what became of it.
            asyncio.get_running_loop().call_later(RESERVATION_SECONDS, self._world.release, pod)

    async def _inspect(self, request: web.Request) -> web.Response:
        nodes = []
        for name in self._world.node_names():
            node = self._world.find_node(name)
            if node and node.capacity.get(names.GPU_MEM, "0") != "0":
                nodes.append(_describe(node, self._world.ledger_of(name)))
        return _answer({"nodes": nodes})

    def _choose(self, pod: Pod, node: Node) -> tuple[int, ...] | str:
        return choose_cards(pod, node, count_cards(node, self._world.ledger_of(node.name)))


async def _version(request: web.Request) -> web.Response:
    return web.json_response({"version": VERSION})


def _describe(node: Node, pods: tuple[Pod, ...]) -> Object:
    cards = count_cards(node, pods)
    held: dict[int, list[Object]] = {card.index: [] for card in cards}
    for pod in pods:
        entry = parse_entry(pod)
        for card, units in (entry.units if entry else {}).items():
            if card in held and not pod.terminating:
                held[card].append({"name": pod.name, "namespace": pod.namespace, "usedGPU": units})
    return {
        "name": node.name,
        "totalGPU": sum(card.total for card in cards),
        "usedGPU": sum(card.used for card in cards),
        "devs": [
            {
                "id": card.index,
                "totalGPU": card.total,
                "usedGPU": card.used,
                "pods": held[card.index],
            }
            for card in cards
        ],
    }


def _lower(arguments: dict[str, Any]) -> Object:
    return {key.lower(): value for key, value in arguments.items()}


def _answer(body: Object) -> web.Response:
    return web.Response(body=orjson.dumps(body), content_type="application/json")
