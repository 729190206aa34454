"""Whether a controller renews its Lease, whatever its clock and the reader's are apart."""

from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from gpushare.analysis.doctor.installation import judge_leader
from gpushare.analysis.finding import FindingCode
from gpushare.cli.doctor import installation as installations
from gpushare.cli.doctor.installation import read_leader
from gpushare.kube.client import ApiClient

HELD = {"holderIdentity": "op-1", "leaseDurationSeconds": 0.09}


class Renewals:
    """A Lease that is as it is written, one look after another; the last one stays."""

    def __init__(self, *ages: float) -> None:
        now = datetime.now(UTC)
        self._times = [(now - timedelta(seconds=age)).isoformat() for age in ages]
        self.looks = 0

    async def find(self, path: str) -> dict[str, Any]:
        at = self._times[min(self.looks, len(self._times) - 1)]
        self.looks += 1
        return {"spec": {**HELD, "renewTime": at}}


@pytest.fixture(autouse=True)
def pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installations, "LOOK_SECONDS", 0.01)


@pytest.mark.parametrize(
    ("ages", "looks", "code"),
    [
        ((1,), 1, FindingCode.CONTROLLER_ACTIVE),
        ((30, 28), 2, FindingCode.CONTROLLER_ACTIVE),
        ((-30, -32), 2, FindingCode.CONTROLLER_ACTIVE),
        ((20,), 6, FindingCode.CONTROLLER_SILENT),
        ((-30,), 6, FindingCode.CONTROLLER_SILENT),
        ((300,), 1, FindingCode.CONTROLLER_SILENT),
    ],
    ids=["fresh", "clock ahead", "clock behind", "killed", "killed, clock behind", "long ago"],
)
async def test_a_lease_in_doubt_is_looked_at_until_it_is_renewed_or_should_have_been(
    ages: tuple[float, ...], looks: int, code: FindingCode
) -> None:
    lease = Renewals(*ages)
    leader = await read_leader(cast(ApiClient, lease), "gpushare-system")
    assert (judge_leader(leader, "gpushare-system", datetime.now(UTC)).code, lease.looks) == (
        code,
        looks,
    )
