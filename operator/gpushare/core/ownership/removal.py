"""What becomes of the pools when the operator is removed, and how a person is told."""

from collections.abc import Sequence

from gpushare import names
from gpushare.api.pool import Pool
from gpushare.names import PoolFate

SHOWN = 10


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
    nodes = pool.status.releasing.nodes
    if not pool.status.samples:
        return f"pool {pool.name}: waits for {nodes} nodes"
    first = pool.status.samples[0]
    more = f", and {nodes - 1} more" if nodes > 1 else ""
    return f"pool {pool.name}: waits for node {first.node}{more}: {first.message}"


def describe_remains(
    remaining: Sequence[Pool], fate: PoolFate, *, timeout_seconds: float, namespace: str
) -> str:
    """Why the removal failed: what each pool waits for, and what to do."""
    if fate is PoolFate.KEEP:
        shown = ", ".join(pool.name for pool in remaining[:SHOWN])
        return (
            f"after {timeout_seconds:g} s the finalizer {names.FINALIZER} is still on {shown}: a "
            f"controller puts it back. Stop it (look in namespace {namespace}), and try again"
        )
    count = f"{len(remaining)} pools are" if len(remaining) > 1 else "1 pool is"
    lines = [
        f"{count} not gone after {timeout_seconds:g} s, so the operator stays. The deletion goes "
        "on all the same:",
        *map(describe_wait, remaining[:SHOWN]),
    ]
    if (more := len(remaining) - SHOWN) > 0:
        lines.append(f"{more} more pools")
    lines.append("What to do: see to what they wait for, and uninstall again, until it succeeds.")
    held = [pool for pool in remaining if pool.has_our_finalizer]
    if any(pool.status.releasing is None for pool in held):
        lines.append(
            f"Does the controller run? kubectl -n {namespace} get pods "
            "-l app.kubernetes.io/component=controller"
        )
    if held:
        lines.append(
            "To have a pool leave its nodes as they are: kubectl patch gsp "
            f'{held[0].name} --type=merge -p \'{{"spec":{{"deletionPolicy":"Retain"}}}}\''
        )
    return "\n  ".join(lines)
