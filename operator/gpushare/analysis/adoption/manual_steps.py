"""Lists the manual steps of a migration to the Professional edition, in order."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from shlex import quote

from gpushare import names
from gpushare.analysis.adoption.grouping import split
from gpushare.analysis.adoption.upgrade import Upgrade
from gpushare.analysis.program_name import name_command
from gpushare.api.pool import DeletionPolicy, Pool
from gpushare.editions.registry import EDITIONS, get_mode

NODES_IN_ONE = 50
"""Names in one command."""


@dataclass(frozen=True, slots=True)
class ManualStep:
    """A manual step, and its commands if it has any."""

    what: str
    commands: tuple[str, ...] = ()


def list_steps(
    upgrades: Sequence[Upgrade], replaced: Sequence[Pool], *, waiting: int, chosen: str, by: str
) -> Iterator[ManualStep]:
    """List the steps, of which the first saves the pools: later nothing shows what they were.

    `replaced` are pools of the edition that is left; `waiting` pods without a node select labels
    that go. The steps' own commands carry the options `chosen` and `by`: what Basic's share
    becomes, and the label of node pools.
    """
    if not (upgrades or replaced):
        return
    present = {each.from_mode.edition for each in upgrades} | {p.spec.edition for p in replaced}
    left = [each for edition, each in EDITIONS.items() if edition in present and each.successor]
    yield ManualStep(
        "Save the pools to a file before you change anything",
        (name_command(f"migrate pools{chosen}{by} -o yaml > professional.yaml"),),
    )
    yield ManualStep(
        "If this is a dedicated cluster, migrate it to ACK Pro. The Professional edition runs on "
        "ACK Pro, ACK Edge Pro and registered clusters"
    )
    if replaced:
        yield ManualStep(
            "Delete the pools of the old edition, because a pool's edition can't change. With "
            "deletionPolicy Retain their nodes keep their labels",
            tuple(command for pool in replaced for command in _delete(pool)),
        )
    if going := {pod.uid for each in upgrades for pod in (*each.pods, *each.selecting)}:
        yield ManualStep(
            f"Wait for pods that hold shared GPUs or select removed labels ({len(going)} now), or "
            "move them, node by node. The vendor requires that before a node's mode changes"
        )
    yield from (ManualStep(each.removal) for each in left)
    if upgrades:
        yield ManualStep(
            "Relabel the nodes. Where the Job has done so, nothing changes"
            if any(each.removal_relabels for each in left)
            else "Relabel the nodes",
            tuple(_relabel(upgrades)),
        )
    if rebooting := [upgrade.node for upgrade in upgrades if upgrade.reboots]:
        loaded = f"{names.ANNOTATION_MODULE}={names.MODULE_LOADED}"
        yield ManualStep(
            "Annotate these nodes: their cGPU kernel module is loaded, and would isolate in mode "
            "share too. Their pool then asks for its removal and a reboot (docs/teardown.md)",
            tuple(f"kubectl annotate nodes {nodes} {loaded}" for nodes in _batch(rebooting)),
        )
    yield ManualStep("Install the Professional edition (ack-ai-installer)")
    yield ManualStep("Create the pools", ("kubectl apply -f professional.yaml",))
    selecting = waiting + sum(len(upgrade.selecting) for upgrade in upgrades)
    yield ManualStep(
        f"Migrate workloads whose pods select removed labels ({selecting} now), in their owners' "
        f"templates. Quotas on {names.RESOURCE_GPU_MEMORY} stay valid: both editions count the "
        "same",
        (name_command(f"migrate workloads -A{chosen}"),),
    )


def _delete(pool: Pool) -> Iterator[str]:
    if pool.spec.deletion_policy is not DeletionPolicy.RETAIN:
        patch = '{"spec":{"deletionPolicy":"Retain"}}'
        yield f"kubectl patch {names.PLURAL} {quote(pool.name)} --type=merge -p '{patch}'"
    yield f"kubectl delete {names.PLURAL} {quote(pool.name)}"


def _relabel(upgrades: Sequence[Upgrade]) -> Iterator[str]:
    alike: defaultdict[str, list[str]] = defaultdict(list)
    for upgrade in upgrades:
        wanted = get_mode(upgrade.to.edition, upgrade.to.schedule).labels
        written = [f"{key}={value}" for key, value in wanted.items()]
        removed = [f"{key}-" for key in upgrade.remove]
        alike[" ".join((*written, *removed))].append(upgrade.node)
    for labels, nodes in sorted(alike.items()):
        for batch in _batch(nodes):
            yield f"kubectl label nodes {batch} {labels} --overwrite"


def _batch(nodes: Sequence[str]) -> list[str]:
    return [" ".join(map(quote, part)) for part in split(nodes, NODES_IN_ONE)]
