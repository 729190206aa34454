"""Builds pods on cards, and readings of them, for the rules of usage."""

from datetime import UTC, datetime
from typing import Any

from gpushare.analysis.usage.card_pods import CardPod
from gpushare.analysis.usage.exporters import EXPORTERS, Exporter
from gpushare.analysis.usage.reading import Reading
from gpushare.api.k8s.pod_owner import Workload

GIB, HOUR = 2**30, 3600
OLD_HAMI = next(each for each in EXPORTERS if each.pod == "podname")
ACK_PROCESSES = next(each for each in EXPORTERS if "PROCESS" in each.series)
DCGM = EXPORTERS[-1]


def a_card_pod(name: str = "web-7c9d5b8f6d-x2k4z", **values: Any) -> CardPod:
    """Build a pod of the Deployment `web` that asks for 8 of the 15 GiB of a card, since 5 h."""
    given: dict[str, Any] = {
        "namespace": "a",
        "workload": Workload("Deployment", "web"),
        "node": "n1",
        "is_node_known": True,
        "pool": "train",
        "units": 8,
        "bytes_per_unit": GIB,
        "cards": 1,
        "card_units": 15,
        "is_whole": False,
        "is_isolated": False,
        "is_crashing": False,
        "containers": ("main",),
        "is_single": True,
        "since": datetime.fromtimestamp(5 * HOUR, UTC),
    }
    return CardPod(name=name, **(given | values))


def a_reading(
    gib: float, exporter: Exporter = OLD_HAMI, node: str = "", first_hour: int = 1
) -> Reading:
    """Build the reading of a pod that uses so much from an hour to the tenth."""
    points = {float(hour * HOUR): gib * GIB for hour in range(first_hour, 11)}
    return Reading(exporter, node, points, HOUR, (gib * GIB,))
