"""The operator is killed at each write of a rollout, before and after it.

`make test` has some of these moments, `make test-chaos` the others.
"""

from collections.abc import Iterator
from itertools import product

import pytest

from tests.chaos.crash import Crash, Side, Write
from tests.chaos.flip import MEMBERS, Flip, Reference, expect_as_undisturbed, learn, standing
from tests.kit.bench import Bench

STEPS = (
    ("nodes", "PATCH", "Cordoned"),
    ("nodes", "PATCH", "Labelled"),
    ("nodes", "PATCH", "Restarting"),
    ("pods", "DELETE", "Restarting"),
    ("nodes", "PATCH", ""),
)
"""Of each node's change, the writes: resource, verb, and the step that is recorded."""
WRITES = tuple(Write(node, *step) for node, step in product(MEMBERS, STEPS))
CRASHES = {str(crash): crash for crash in (Crash(*moment) for moment in product(WRITES, Side))}
SELECTION = {
    "after PATCH nodes of n3, step Cordoned",
    "before PATCH nodes of n1, step Labelled",
    "after PATCH nodes of n4, step Restarting",
    "after DELETE pods of n1, step Restarting",
    "before PATCH nodes of n3, step done",
}
assert CRASHES.keys() >= SELECTION


@pytest.fixture(scope="module")
def flip(installed: Bench) -> Iterator[Flip]:
    with standing(installed) as flip:
        yield flip


@pytest.fixture(scope="module")
def undisturbed(flip: Flip) -> Reference:
    return learn(flip)


def test_an_undisturbed_rollout_makes_five_writes_a_node(undisturbed: Reference) -> None:
    assert undisturbed.writes == set(WRITES)


@pytest.mark.parametrize(
    "crash",
    [
        pytest.param(crash, id=name, marks=() if name in SELECTION else pytest.mark.chaos)
        for name, crash in CRASHES.items()
    ],
)
def test_killed_at_a_write_and_started_again_it_ends_as_undisturbed(
    flip: Flip, undisturbed: Reference, crash: Crash
) -> None:
    expect_as_undisturbed(flip, crash, undisturbed)
    flip.watching.expect_clean()
