"""Events, as `kubectl describe` shows them."""

from typing import Any

from tests.kit.bench import Bench

Json = dict[str, Any]

_EVENTS = "/apis/events.k8s.io/v1/events"


def read_events(bench: Bench, about: Json, reason: str | None = None) -> list[Json]:
    """The operator's Events on this very object, the oldest first; of `reason`, if it is given."""
    return sorted(
        (
            event
            for event in bench.call("GET", _EVENTS)["items"]
            if event["regarding"].get("uid") == about["metadata"]["uid"]
            and event.get("reportingController", "").startswith("gpushare.io/")
            and reason in (None, event["reason"])
        ),
        key=lambda event: str(event["eventTime"]),
    )
