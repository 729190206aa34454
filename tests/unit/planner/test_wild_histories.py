"""Random histories of clusters that are not tidy: what is promised whatever nodes and writers do.

A history is its seed, for as long as what draws from it stays the same. One that was red is kept
below, played by hand.
"""

import os
import random
from datetime import datetime

import pytest

from gpushare.api.pool import Edition
from tests.kit.histories import simulated_cluster as sim
from tests.kit.histories.field_ownership import CORDON
from tests.kit.histories.machine import Machine
from tests.kit.histories.simulated_cluster import CONFIG
from tests.kit.histories.wild.disturbances import NODES, WILD_EVENTS, WildDisturbances
from tests.kit.histories.wild.invariants import MOST_RESTARTS
from tests.unit.planner.test_planner_histories import EVENTS, PHASES, Histories

HISTORIES = int(os.environ.get("GPUSHARE_HISTORIES", "0"))
"""By `make fuzz`: so many new ones; else the same forty every time."""
FIXED = (*range(40), "d2-209", "e1-217", "g1-34", "2344772266-48")
BATCHES = 8
EDITIONS = (*[Edition.PROFESSIONAL] * 2, Edition.BASIC, Edition.NVIDIA)
STEPS = 8
_GROUP_A = {
    "selector": {"match_expressions": [{"key": "group", "operator": "In", "values": ("a",)}]}
}
_OFFERED = {"nvidia.com/gpu": 1000}
TIDY_EVENTS = sorted(set(EVENTS) - {"pool retried"})


class WildHistories(WildDisturbances, Histories):
    """The same, with the operator in it."""

    work = Histories.work

    def live(self, steps: int) -> None:
        """Something happens, mostly to nodes in the midst of a change, and the operator goes on."""
        chance = self.chance
        for _ in range(steps):
            node = self._work_until(chance.choice(PHASES), chance.sample(NODES, len(NODES)))
            if chance.random() < 0.6:
                name = chance.choice(sorted(WILD_EVENTS))
                WILD_EVENTS[name](self, node)
            else:
                EVENTS[chance.choice(TIDY_EVENTS)](self, node)
            self.work(2, chance.choice((1, 5, 12, 130)), is_slow=chance.random() < 0.3)

    def _decide(self, *, is_told: bool = True) -> datetime | None:
        self.checker.note_assertions(self.cluster)
        return super()._decide(is_told=is_told)


def play(seed: object) -> None:
    """One history, from its seed to where nothing is left to do."""
    history = WildHistories()
    history.begin_wild(seed, EDITIONS)
    history.live(STEPS)
    history.teardown()


@pytest.mark.timeout(1200 + 2 * HISTORIES)
@pytest.mark.parametrize("batch", range(BATCHES))
def test_on_untidy_clusters_every_promise_holds_and_all_comes_to_rest(batch: int) -> None:
    run = random.randrange(2**32)
    new = [f"{run}-{number}" for number in range(HISTORIES // BATCHES)]
    for seed in new or FIXED[batch::BATCHES]:
        print(f"seed={seed}")
        play(seed)


# What was red once, before the rule that it is about.


def test_whatever_is_written_to_pools_for_two_hours_no_plugin_restarts_seven_times_an_hour() -> (
    None
):
    """The nodes go to a pool of another mode and back, by priorities that are never the same."""
    history = WildHistories()
    history.begin(Edition.BASIC, 1, 1, ["share"] * 4, "share", {}, True, 0)
    history.put_pool("inference", schedule="cgpu", priority=50, nodes=_GROUP_A)
    for turn in range(60):
        history.put_pool("inference", priority=(101 if turn % 2 else 30) + turn // 2)
        history.work(4, 30, is_slow=False)
    # One more is kept for a plugin that returns without its resource.
    assert history.checker.most_restarts >= MOST_RESTARTS - 1


def test_a_driver_upgrade_in_the_midst_of_a_change_keeps_its_node_cordoned() -> None:
    history = WildHistories()
    history.begin(Edition.BASIC, 1, 1, ["share"] * 4, "share", {}, True, 0)
    history.put_pool("training", schedule="cgpu")
    node = history._work_until("Restarting", ["n1"])
    history.begin_maintenance(node)
    history.work(8, 12, is_slow=False)
    assert CORDON in history.cluster.nodes[node].fields
    history.end_maintenance(node, is_unconditional=False, is_label_first=False)
    history.come_to_rest()
    assert CORDON not in history.cluster.nodes[node].fields


def test_what_no_device_plugin_can_serve_is_left_as_it_was_by_a_pool_that_selects_it() -> None:
    history = WildHistories()
    history.begin(Edition.PROFESSIONAL, 1, 1, ["share"] * 4, "share", {}, True, 0)
    others = {
        "cpu": Machine("CPU", 0, shows_cards=False, labels={}),
        "windows": Machine("Windows", operating_system="windows"),
        "virtual": Machine(
            "virtual", is_virtual=True, labels={"type": "virtual-kubelet"}, resources=_OFFERED
        ),
    }
    for name, machine in others.items():
        history.cluster = sim.add_node(history.cluster, name, {"group": "a"}, machine)
    history.put_pool("training", schedule="default")
    history.come_to_rest()
    for name, machine in others.items():
        expected = {**machine.labels, "group": "a"}
        assert history.cluster.nodes[name].labels == expected
        assert CORDON not in history.cluster.nodes[name].fields


def test_a_label_that_its_manager_leaves_at_the_pools_next_mode_is_not_claimed_under_pods() -> None:
    """Claimed, it would pass for the recorded mode's, and be changed back while pods hold cards."""
    history = WildHistories()
    rollout: dict[str, object] = {"workloads": "Wait"}
    history.begin(Edition.NVIDIA, 1, 1, ["cgpu"] * 4, "cgpu", rollout, True, 0)
    history.bind_pod("n4", is_late=False, is_strict=False, selects="")
    history.work(3, 5, is_slow=False)
    for _ in range(4):
        history.label_by_hand("n4", "default", "autoscaler")
        history.work(1, 1, is_slow=False)
    history.put_pool("training", schedule="default")
    history.work(1, 1, is_slow=False)
    assert history.cluster.nodes["n4"].owners(CONFIG) == {"autoscaler"}
    history.wait(700.0)
    history.put_pool("training", schedule="cgpu")
    history.work(3, 5, is_slow=False)
    assert history.cluster.nodes["n4"].labels[CONFIG] == "default"
