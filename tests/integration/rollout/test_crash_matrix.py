"""The operator is killed in mid-rollout: some of the moments of `make test-chaos`.

All of them: `python -m tests.chaos.matrix`.
"""

from collections.abc import Iterator

import pytest

from tests.chaos.crash import Crash, Side, Write
from tests.chaos.flip import Flip, standing
from tests.chaos.matrix import Reference, expect_as_undisturbed, learn
from tests.kit.bench import Bench

SELECTION = (
    Crash(Write("n3", "nodes", "PATCH", "Cordoned"), Side.AFTER),
    Crash(Write("n1", "nodes", "PATCH", "Labelled"), Side.BEFORE),
    Crash(Write("n4", "nodes", "PATCH", "Restarting"), Side.AFTER),
    Crash(Write("n1", "pods", "DELETE", "Restarting"), Side.AFTER),
    Crash(Write("n3", "nodes", "PATCH", ""), Side.BEFORE),
)


@pytest.fixture(scope="module")
def flip(installed: Bench) -> Iterator[Flip]:
    with standing(installed) as flip:
        yield flip


@pytest.fixture(scope="module")
def undisturbed(flip: Flip) -> Reference:
    return learn(flip)


def test_an_undisturbed_rollout_makes_five_writes_a_node(undisturbed: Reference) -> None:
    assert len(undisturbed.writes) == 20
    assert {crash.write for crash in SELECTION} < set(undisturbed.writes)


@pytest.mark.parametrize("crash", SELECTION, ids=str)
def test_killed_at_a_write_and_started_again_it_ends_as_undisturbed(
    flip: Flip, undisturbed: Reference, crash: Crash
) -> None:
    expect_as_undisturbed(flip, crash, undisturbed)
    flip.watching.expect_clean()
