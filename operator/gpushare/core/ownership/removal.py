"""What becomes of the pools when the operator is removed, and how a person is told."""

from collections.abc import Iterable
from dataclasses import dataclass

from gpushare import names
from gpushare.api.pool import Pool
from gpushare.names import PoolFate

SHOWN = 10


@dataclass(frozen=True, slots=True)
class Removal:
    """What is to be done to the pools next; nothing is left where `remaining` is empty."""

    write: tuple[Pool, ...]
    """To be deleted, or to be let go of."""
    remaining: tuple[Pool, ...]
    """Not as they are to be yet, those of `write` among them."""


def plan_removal(pools: Iterable[Pool], fate: PoolFate) -> Removal:
    """The next step on the way to what `fate` says."""
    if fate is PoolFate.KEEP:
        held = tuple(pool for pool in pools if pool.has_our_finalizer)
        return Removal(held, held)
    remaining = tuple(pools)
    return Removal(tuple(pool for pool in remaining if not pool.deleting), remaining)


def describe_write(pool: Pool, fate: PoolFate) -> str:
    """What has been done to the pool."""
    if fate is PoolFate.DELETE:
        policy = pool.spec.deletion_policy
        return f"pool {pool.name}: deleted; its nodes are given back, deletionPolicy {policy}"
    midway = pool.status.nodes.updating
    if not midway:
        return f"pool {pool.name}: let go; its nodes stay as they are"
    return (
        f"pool {pool.name}: let go; {midway} of its nodes were in their change, stay as they are, "
        "and may be cordoned: see `kubectl get nodes`"
    )


def describe_wait(pool: Pool) -> str:
    """What keeps a pool that is being deleted."""
    others = pool.finalizers - {names.FINALIZER}
    if not pool.has_our_finalizer and others:
        return f"pool {pool.name}: waits for finalizers of others: {', '.join(sorted(others))}"
    if pool.status.releasing is None:
        return f"pool {pool.name}: waits for the controller, which has not looked at it yet"
    if not pool.status.samples:
        return f"pool {pool.name}: waits for {pool.status.releasing.nodes} nodes"
    first = pool.status.samples[0]
    more = (
        f", and {pool.status.releasing.nodes - 1} more" if pool.status.releasing.nodes > 1 else ""
    )
    return f"pool {pool.name}: waits for node {first.node}{more}: {first.message}"


def describe_remains(
    pools: Iterable[Pool], fate: PoolFate, *, timeout_seconds: float, namespace: str
) -> str:
    """Why the removal failed: what each pool waits for, and what to do."""
    remaining = tuple(pools)
    if fate is PoolFate.KEEP:
        shown = ", ".join(pool.name for pool in remaining[:SHOWN])
        return (
            f"after {timeout_seconds:g} s the finalizer {names.FINALIZER} is still on {shown}: a "
            f"controller puts it back. Stop it (look in namespace {namespace}), and try again"
        )
    lines = [describe_wait(pool) for pool in remaining[:SHOWN]]
    if more := len(remaining) - len(lines):
        lines.append(f"{more} more pools")
    return "\n  ".join(
        [
            f"{_count(remaining)} not gone after {timeout_seconds:g} s, so the operator stays. "
            "The deletion goes on all the same:",
            *lines,
            *_advise(remaining, namespace),
        ]
    )


def _count(pools: tuple[Pool, ...]) -> str:
    return f"{len(pools)} pools are" if len(pools) > 1 else "1 pool is"


def _advise(remaining: tuple[Pool, ...], namespace: str) -> list[str]:
    held = [pool for pool in remaining if pool.has_our_finalizer]
    advice = ["What to do: see to what they wait for, and uninstall again, as often as it takes."]
    if any(pool.status.releasing is None for pool in held):
        advice.append(
            f"Does the controller run? kubectl -n {namespace} get pods "
            "-l app.kubernetes.io/component=controller"
        )
    if held:
        advice.append(
            "To have a pool leave its nodes as they are: kubectl patch gsp "
            f'{held[0].name} --type=merge -p \'{{"spec":{{"deletionPolicy":"Retain"}}}}\''
        )
    return advice
