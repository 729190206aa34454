"""Whether a person is to remove the module from a node now."""

import pytest

from gpushare.api.node import Node
from gpushare.api.pod import Pod
from gpushare.api.pool import Pool
from gpushare.core.dueteardown import NotDueError, expect_commands_due
from gpushare.core.records import Step
from gpushare.core.setup import Setup
from tests.kit.values.node_plans import CGPU, INSTALLER, OURS, applied
from tests.kit.values.objects import MEMORY, NOW, a_node, a_pool, a_world
from tests.kit.values.teardown_plans import PLUGIN, job_pool, manual_pool, teardown_node

ISOLATING = a_node(labels={**CGPU, **OURS}, records=applied(), allocatable={MEMORY: 15})
LABELLED = teardown_node(Step.LABELLED)


def ask(node: Node, pool: Pool, *pods: Pod) -> None:
    world = a_world(pools=(pool,), nodes=(node,), pods=(PLUGIN, *pods))
    expect_commands_due(world, Setup(may_tear_down=True), node.name, NOW)


def test_they_are_typed_once_the_node_is_labelled_and_nothing_puts_the_module_back() -> None:
    ask(LABELLED, manual_pool())


@pytest.mark.parametrize(
    ("node", "pool", "told"),
    [
        (ISOLATING, a_pool(schedule="cgpu"), "ComponentNotReady: labelled cgpu"),
        (ISOLATING, manual_pool(), "RequiresTeardown: cgpu -> share: annotate"),
        (teardown_node(Step.REBOOTED, boot="boot-2"), manual_pool(), "ModuleUnverified: rebooted"),
        (LABELLED, job_pool(), "ModuleRemoval: a Job is made"),
    ],
    ids=["isolating", "not begun", "rebooted", "a Job's"],
)
def test_elsewhere_it_is_said_where_the_node_is_and_what_comes_first(
    node: Node, pool: Pool, told: str
) -> None:
    with pytest.raises(NotDueError, match="somebody annotate it ") as no:
        ask(node, pool)
    assert told in str(no.value)


def test_the_installer_must_leave_first() -> None:
    with pytest.raises(NotDueError, match="must leave first, or it loads the module again"):
        ask(LABELLED, manual_pool(), INSTALLER)
