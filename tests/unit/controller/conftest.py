"""Pools are those that a test gives the loop, which rests after failed calls only."""

import pytest

from tests.unit.controller.reconcile_loop import have_pools_listed

RESTS = (
    "executor.GONE_SECONDS",
    "reconciler.CONFLICT_SECONDS",
    "reconciler.EVICTION_RETRY_SECONDS",
    "status_writer.PERIOD_SECONDS",
)


@pytest.fixture(autouse=True)
def _loop(monkeypatch: pytest.MonkeyPatch) -> None:
    have_pools_listed(monkeypatch)
    for rest in RESTS:
        monkeypatch.setattr(f"gpushare.controller.{rest}", 0.0)
