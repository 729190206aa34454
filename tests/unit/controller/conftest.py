"""Pools are those that a test gives the loop."""

import pytest

from tests.unit.controller.reconcile_loop import have_pools_listed


@pytest.fixture(autouse=True)
def _pools(monkeypatch: pytest.MonkeyPatch) -> None:
    have_pools_listed(monkeypatch)
