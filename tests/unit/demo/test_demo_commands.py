"""The commands of the demo, without running them."""

import pytest

from demo.scenes import SCENES

COMMANDS = [
    command for scene in SCENES.values() for step in scene.steps for command in step.commands
]


@pytest.mark.parametrize("command", [it for it in COMMANDS if it.startswith("kubectl delete ")])
def test_a_deletion_ends_by_itself(command: str) -> None:
    """Before 1.36 kubectl may wait for ever for a StatefulSet's pod that is made anew meanwhile."""
    assert "--timeout=" in command
