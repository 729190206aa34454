"""Removes the pools before the operator: `gpushare uninstall`, a hook of the chart."""

import asyncio
import os
from collections.abc import Callable, Sequence

from gpushare import names
from gpushare.api.pool import Pool
from gpushare.kube.client import ApiClient, connect
from gpushare.kube.errors import CALL_FAILURES, CrdMissingError, PoolsRemainError, describe_failure
from gpushare.kube.resources.admission_tables import delete_table
from gpushare.kube.resources.pools import delete_pool, drop_finalizer, list_pools_for_removal
from gpushare.kube.session import load_credentials
from gpushare.names import PoolFate
from gpushare.settings import Settings

POLL_SECONDS = 1.0
SHOWN = 10

Tell = Callable[[str], None]
"""Prints a line that a user reads."""


async def uninstall(
    settings: Settings, *, fate: PoolFate, timeout_seconds: float, tell: Tell
) -> None:
    """Return once no pool prevents the removal of the operator.

    Raises `PoolsRemainError` after `timeout_seconds`, and `CredentialsError`.
    """
    credentials = await load_credentials(settings.kubeconfig, settings.service_account, os.environ)
    async with connect(credentials) as api:
        await remove_pools(
            api, fate, timeout_seconds=timeout_seconds, namespace=settings.namespace, tell=tell
        )


async def remove_pools(
    api: ApiClient, fate: PoolFate, *, timeout_seconds: float, namespace: str, tell: Tell
) -> None:
    """Bring all pools to what `fate` says, and delete the admission table, which nobody keeps any
    more. Raises `PoolsRemainError` after `timeout_seconds`."""
    removal = _PoolRemoval(api, fate, tell)
    try:
        async with asyncio.timeout(timeout_seconds):
            while True:
                if await removal.advance():
                    break
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError as error:
        raise PoolsRemainError(
            removal.failure
            or describe_remains(
                removal.remaining, fate, timeout_seconds=timeout_seconds, namespace=namespace
            )
        ) from error
    await _remove_table(api, tell)


async def _remove_table(api: ApiClient, tell: Tell) -> None:
    """Delete the admission table. Without its policy it has no effect, so it holds up nothing."""
    try:
        if await delete_table(api):
            tell("The admission table is deleted")
    except CALL_FAILURES as error:
        tell(
            f"The admission table is not deleted: {describe_failure(error)}. To delete it, run: "
            f"kubectl delete {names.TABLE_PLURAL} {names.TABLE_NAME}"
        )


class _PoolRemoval:
    """The removal of all pools, and how far it is."""

    def __init__(self, api: ApiClient, fate: PoolFate, tell: Tell) -> None:
        self.remaining: list[Pool] = []
        """Pools that are not in the state that the uninstallation needs yet."""
        self.failure: str = "The API server has not answered"
        """Why the last complete pass could not finish the uninstallation; empty where it could."""
        self._api = api
        self._fate = fate
        self._tell = tell
        self._told: dict[str, str] = {}

    async def advance(self) -> bool:
        """Do what can be done now; return whether nothing is left to do."""
        try:
            pools = await list_pools_for_removal(self._api)
        except CrdMissingError:
            self._tell("This cluster has no GPUSharePools: their CRD was not found")
            return True
        except CALL_FAILURES as error:
            self.failure = f"The pools cannot be listed: {describe_failure(error)}"
            self._tell_once("", self.failure)
            return False
        deletes = self._fate is PoolFate.DELETE
        self.remaining = [pool for pool in pools if deletes or pool.has_our_finalizer]
        failures = [await self._write(pool) for pool in self.remaining]
        self.failure = next(filter(None, failures), "")
        if not self.remaining:
            self._tell("No pool is left" if deletes else "No pool has the operator's finalizer")
        return not self.remaining

    async def _write(self, pool: Pool) -> str:
        """Delete or release the pool, where that is still to do; return what prevented it."""
        deletes = self._fate is PoolFate.DELETE
        if deletes and pool.deleting:
            self._tell_once(pool.name, describe_wait(pool))
            return ""
        try:
            await (delete_pool if deletes else drop_finalizer)(self._api, pool)
        except CALL_FAILURES as error:
            what = "deleted" if deletes else "released"
            failure = f"Pool {pool.name} cannot be {what}: {describe_failure(error)}"
            self._tell_once(pool.name, failure)
            return failure
        self._tell_once(pool.name, describe_write(pool, self._fate))
        return ""

    def _tell_once(self, about: str, line: str) -> None:
        if self._told.get(about) != line:
            self._told[about] = line
            self._tell(line)


def describe_write(pool: Pool, fate: PoolFate) -> str:
    """Tell what has been done to the pool."""
    if fate is PoolFate.DELETE:
        policy = pool.spec.deletion_policy
        return (
            f"Pool {pool.name} is being deleted. Its nodes are released (deletionPolicy {policy})"
        )
    midway = pool.status.nodes.updating
    if not midway:
        return f"Pool {pool.name} is released. Its nodes stay as they are"
    return (
        f"Pool {pool.name} is released. {midway} of its nodes were in their change; they stay as "
        "they are, and may be cordoned. To check, run: kubectl get nodes"
    )


def describe_wait(pool: Pool) -> str:
    """Tell what a pool that is being deleted waits for."""
    others = pool.finalizers - {names.FINALIZER}
    if not pool.has_our_finalizer and others:
        return f"Pool {pool.name} waits for other finalizers: {', '.join(sorted(others))}"
    if pool.status.releasing is None:
        return f"Pool {pool.name} waits for the controller, which has not reconciled it yet"
    nodes = pool.status.releasing.nodes
    if not pool.status.samples:
        return f"Pool {pool.name} waits for {nodes} nodes"
    first = pool.status.samples[0]
    more = f" and {nodes - 1} more" if nodes > 1 else ""
    return f"Pool {pool.name} waits for node {first.node}{more}: {first.message}"


def describe_remains(
    remaining: Sequence[Pool], fate: PoolFate, *, timeout_seconds: float, namespace: str
) -> str:
    """Explain why the removal failed: what each pool waits for, and what to do."""
    if fate is PoolFate.KEEP:
        shown = ", ".join(pool.name for pool in remaining[:SHOWN])
        return (
            f"After {timeout_seconds:g} s, finalizer {names.FINALIZER} is still on {shown}: a "
            f"controller adds it again. Stop the controller (namespace {namespace}), and try again"
        )
    count = f"{len(remaining)} pools are" if len(remaining) > 1 else "1 pool is"
    lines = [
        f"{count} not deleted after {timeout_seconds:g} s, so the operator stays. The deletion "
        "continues:",
        *map(describe_wait, remaining[:SHOWN]),
    ]
    if (more := len(remaining) - SHOWN) > 0:
        lines.append(f"{more} more pools")
    lines.append("Resolve what the pools wait for, then uninstall again until it succeeds.")
    held = [pool for pool in remaining if pool.has_our_finalizer]
    if any(pool.status.releasing is None for pool in held):
        lines.append(
            f"To check that the controller runs, run: kubectl -n {namespace} get pods "
            "-l app.kubernetes.io/component=controller"
        )
    if held:
        lines.append(
            "To delete a pool and keep its nodes as they are, run: kubectl patch gsp "
            f'{held[0].name} --type=merge -p \'{{"spec":{{"deletionPolicy":"Retain"}}}}\''
        )
    return "\n  ".join(lines)
