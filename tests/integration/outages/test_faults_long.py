"""A minute of every kind of error, at every rate: `make test-faults`."""

import time
from collections.abc import Callable, Iterator

import pytest

from tests.integration.outages.fault_scenario import NO_WATCH, WATCH, Scenario, standing
from tests.kit.bench import Bench
from tests.kit.cluster.fault_proxy import Rule

pytestmark = pytest.mark.long

STORM_SECONDS = 60
MOST_REQUESTS_A_SECOND = 25
ERRORS: dict[str, Callable[[float], Rule]] = {
    "429": lambda rate: Rule(
        ".*", "", times=None, probability=rate, status=429, headers={"Retry-After": "1"}
    ),
    "500": lambda rate: Rule(".*", "", times=None, probability=rate, status=500),
    "502": lambda rate: Rule(".*", "", times=None, probability=rate, status=502, body=b"<html>"),
    "503": lambda rate: Rule(".*", "", times=None, probability=rate, status=503),
    "504": lambda rate: Rule(".*", "", times=None, probability=rate, status=504, body=b""),
    "reset": lambda rate: Rule(".*", "", times=None, probability=rate, cut="request"),
    "answer lost": lambda rate: Rule(".*", NO_WATCH, times=None, probability=rate, cut="answer"),
}


@pytest.fixture(scope="module")
def scenario(installed: Bench) -> Iterator[Scenario]:
    with standing(installed) as scenario:
        yield scenario


@pytest.mark.parametrize("rate", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("error", ERRORS.values(), ids=ERRORS.keys())
def test_a_minute_of_errors_passes(
    scenario: Scenario, error: Callable[[float], Rule], rate: float
) -> None:
    since = len(scenario.proxy.requests)
    with scenario.flipping():
        scenario.proxy.add(error(rate))
        scenario.proxy.cut(WATCH)
        time.sleep(STORM_SECONDS)
        sent = len(scenario.proxy.requests) - since
    assert sent <= MOST_REQUESTS_A_SECOND * STORM_SECONDS
