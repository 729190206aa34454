"""What a pool's status says is said once."""

from tests.kit.bench import Bench
from tests.kit.cluster.expect import expect, expect_reason, find_condition, read_events
from tests.kit.cluster.sharing_pools import given_sharing_pool


def test_a_restart_repeats_no_event_and_moves_no_time(bench: Bench) -> None:
    first = bench.operators.start()
    given_sharing_pool(bench, "Professional", "n1")
    bench.add_nodes("stuck", labels={"cgpu": "true"})
    expect_reason(bench, "stuck", "OtherEditionLabels")
    pool = bench.pool()
    (told,) = expect(
        bench, "it is told", lambda: read_events(bench, pool, "OtherEditionLabels") or None
    )
    events, status = read_events(bench, pool), bench.pool()["status"]
    first.kill()

    bench.operators.start(identity=first.identity)
    bench.add_nodes("n2")
    expect(bench, "n2 is ready", lambda: bench.pool()["status"]["nodes"]["ready"] == 2)

    assert told["type"] == "Warning"
    assert read_events(bench, pool, "OtherEditionLabels") == [told]
    # What happens to n2 is told anew: that it is changed, and that nothing is left after that.
    told_before = {event["reason"] for event in events} - {"Updating", "NothingLeft"}
    again = [e for e in read_events(bench, pool) if e["reason"] in told_before]
    assert [e for e in again if "n2" not in e["note"]] == [
        e for e in events if e["reason"] in told_before
    ]
    after = bench.pool()["status"]
    assert after["samples"] == status["samples"]
    moments = [find_condition({"status": each})["lastTransitionTime"] for each in (status, after)]
    assert moments[0] == moments[1]
