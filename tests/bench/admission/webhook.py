"""`gpushare webhook` on the cluster that is measured, as the chart installs it."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from devcluster.installation import OperatorProcess
from devcluster.startup import tail
from tests.bench.api import Json
from tests.bench.rig import Rig
from tests.bench.waiting import BenchError, until
from tests.kit.operator import fetch, read_metric

CONFIGURATIONS = "apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
_CONFIGURATION = "gpushare-webhook"
_ADMISSIONS = "gpushare_admission_requests_total"
_READY_SECONDS = 60
_POLL_SECONDS = 0.02


@dataclass(frozen=True)
class Webhook:
    """A webhook that is ready, and how it is registered."""

    process: OperatorProcess
    ready_seconds: float
    """From the start of its process until /readyz said ok."""
    entries: tuple[Json, ...]
    """Those of its configuration that are asked about pods."""

    @property
    def pid(self) -> int:
        return self.process.process.pid

    @property
    def names(self) -> frozenset[str]:
        """In the API server's metrics."""
        return frozenset(entry["name"] for entry in self.entries)

    def count_admissions(self) -> int:
        """Pods that it was asked about, by its own counter."""
        return int(read_metric(self.process, _ADMISSIONS))


@asynccontextmanager
async def serving(rig: Rig) -> AsyncIterator[Webhook]:
    """One process, with the settings of an installation, for as long as the block lasts."""
    # The rig took the configuration away: its own pods need no webhook.
    await asyncio.to_thread(rig.installation.apply)
    started = time.monotonic()
    process = rig.installation.start("webhook", identity="measured-webhook")

    async def is_ready() -> bool:
        if not process.alive:
            raise BenchError(f"the webhook ended by itself:\n{tail(process.log)}")
        return await asyncio.to_thread(_says_ready, process)

    try:
        await until(
            is_ready, "the webhook is ready", seconds=_READY_SECONDS, poll_seconds=_POLL_SECONDS
        )
        seconds = time.monotonic() - started
        installed = await rig.api.call("GET", f"{CONFIGURATIONS}/{_CONFIGURATION}")
        yield Webhook(process, seconds, find_pod_entries(installed))
    finally:
        await asyncio.to_thread(process.stop)


def find_pod_entries(configuration: Json) -> tuple[Json, ...]:
    """The webhooks of a configuration that are asked about pods."""
    return tuple(
        entry
        for entry in configuration["webhooks"]
        if any("pods" in rule["resources"] for rule in entry["rules"])
    )


def _says_ready(process: OperatorProcess) -> bool:
    try:
        return "ok" in fetch(process, "/readyz")
    except OSError:
        return False
