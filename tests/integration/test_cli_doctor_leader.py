"""`gpushare doctor` about a controller that was killed, and left its Lease behind."""

import json
from datetime import UTC, datetime, timedelta

from tests.kit.bench import Bench
from tests.kit.commandline import run_command

LEASES = "/apis/coordination.k8s.io/v1/namespaces/gpushare-system/leases"


def test_a_controller_that_was_killed_is_told_before_its_lease_is_a_minute_old(
    installed: Bench,
) -> None:
    installed.operators.end_all()
    renewed = datetime.now(UTC) - timedelta(seconds=20)
    spec = {
        "holderIdentity": "killed",
        "leaseDurationSeconds": 2,
        "renewTime": renewed.isoformat(timespec="microseconds").replace("+00:00", "Z"),
    }
    installed.call("DELETE", LEASES)
    lease = {"metadata": {"name": "gpushare-controller"}, "spec": spec}
    installed.call("POST", LEASES, lease)
    try:
        ended = run_command("doctor", "-o", "json", kubeconfig=installed.cluster.kubeconfig)
    finally:
        installed.call("DELETE", LEASES)
    found = {each["code"]: each for each in json.loads(ended.out)["findings"]}
    assert found["ControllerSilent"]["severity"] == "error"
    assert "killed has not renewed it" in found["ControllerSilent"]["message"]
