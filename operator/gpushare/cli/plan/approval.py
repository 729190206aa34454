"""Runs `gpushare approve`, `start-now`, `retry` and `recommend --accept`."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from gpushare import names
from gpushare.analysis.approve_and_retry import (
    NotCalledForError,
    RequestedValue,
    explain_no_pool,
    find_pool_of,
    find_pool_to_join,
    find_recommending,
    judge_accepted_move,
    judge_approval,
    judge_node_retry,
    judge_pool_retry,
    judge_start_now,
    judge_told_retry,
)
from gpushare.analysis.finding import Unseen
from gpushare.api.k8s.node import parse_node
from gpushare.api.pool import Pool, UnreadablePool
from gpushare.api.pruned.cluster import Cluster, Kind
from gpushare.cli.cluster.access import Access
from gpushare.cli.cluster.objects import PATHS, read_cluster
from gpushare.cli.cluster.partial_read import see
from gpushare.cli.cluster.writes import POOL_RIGHTS, naming_rights, send
from gpushare.cli.errors.failures import build_unknown
from gpushare.cli.exit_codes import CommandError, Exit
from gpushare.cli.output.answer import Answer, build_messages
from gpushare.cli.plan.write import annotate, apply_approval
from gpushare.core.records.record import RecordError
from gpushare.kube.client import ApiClient
from gpushare.kube.errors import ApiError
from gpushare.kube.resources.pools import parse_pool, parse_pools

Json = dict[str, Any]

ATTEMPTS = 5
"""The controller writes statuses all the time; when it was first, everything is judged again."""
_OWNED = "FieldManagerConflict"
_LATER = "The approval also covers the same changes of later nodes, until approvedPlan changes"
_RIGHTS = {
    Kind.POOLS: POOL_RIGHTS,
    Kind.NODES: "get and patch on nodes",
}


@dataclass(frozen=True, slots=True)
class Write:
    """Options of a write, and where it goes."""

    access: Access
    dry_run: bool = False
    force: bool = False


async def approve_pool(write: Write, name: str, seen_hash: str) -> Answer:
    """Run `approve`. Raises `CommandError`, and what `errors_as_sentences` knows."""
    async with await write.access.connect() as api:

        async def say() -> Answer:
            raw = await _read(api, Kind.POOLS, name)
            requested = judge_approval(_parse_pool(raw), seen_hash)
            if requested.value:
                force, dry_run = write.force, write.dry_run
                await send(apply_approval(api, raw, requested.value, force=force, dry_run=dry_run))
            stands = raw["spec"].get("rollout", {}).get("approvedPlan", "")
            field = "spec.rollout.approvedPlan"
            return _answer(write, f"pool/{name}", field, requested, stands, more=_LATER)

        return await _insist(say, Kind.POOLS)


async def start_pool_now(write: Write, name: str, seen_hash: str) -> Answer:
    """Run `start-now`. Raises `CommandError`, and what `errors_as_sentences` knows."""
    key = names.ANNOTATION_START_NOW
    async with await write.access.connect() as api:

        async def say() -> Answer:
            raw = await _read(api, Kind.POOLS, name)
            pool = _parse_pool(raw)
            requested = judge_start_now(pool, seen_hash, _tell_time())
            if requested.value:
                path = _path(Kind.POOLS, name)
                await send(annotate(api, path, raw, key, requested.value, dry_run=write.dry_run))
            return _answer(write, f"pool/{name}", key, requested, pool.start_now)

        return await _insist(say, Kind.POOLS)


async def accept_move(write: Write, seen_hash: str) -> Answer:
    """Run `recommend --accept`. Raises `CommandError`, and what `errors_as_sentences` knows."""
    key = names.ANNOTATION_ACCEPT_MOVE
    async with await write.access.connect() as api:

        async def say() -> Answer:
            cluster = await read_cluster(api, (Kind.POOLS,), datetime.now(UTC))
            pools, _ = parse_pools(cluster.pools or ())
            name = find_recommending(pools, seen_hash)
            raw = await _read(api, Kind.POOLS, name)
            pool = _parse_pool(raw)
            requested = judge_accepted_move(pool, seen_hash)
            if requested.value:
                path = _path(Kind.POOLS, name)
                await send(annotate(api, path, raw, key, requested.value, dry_run=write.dry_run))
            return _answer(write, f"pool/{name}", key, requested, pool.accept_move)

        return await _insist(say, Kind.POOLS)


async def retry_named(write: Write, name: str) -> Answer:
    """Run `retry`. Raises `CommandError`, and what `errors_as_sentences` knows."""
    kinds = {"pool": Kind.POOLS, "node": Kind.NODES}
    what, _, rest = name.rpartition("/")
    if what and what not in kinds:
        raise CommandError(Exit.USAGE, f"{name}: only pool/NAME and node/NAME can be retried")
    async with await write.access.connect() as api:
        kind = kinds[what] if what else await _find_kind(api, rest)
        say = _retry_pool if kind is Kind.POOLS else _retry_node
        return await _insist(lambda: say(api, write, rest), kind)


async def _find_kind(api: ApiClient, name: str) -> Kind:
    """Find out whether a pool or a node has this name; only kinds that may be read count."""
    found, refusal = [], None
    for kind in (Kind.POOLS, Kind.NODES):
        try:
            if await _find(api, kind, name) is not None:
                found.append(kind)
        except ApiError as error:
            if error.status != 403:
                raise
            refusal = error
    if len(found) == 2:
        message = f"both a pool and a node are called {name}. Use pool/{name} or node/{name}"
        raise CommandError(Exit.USAGE, message)
    if found:
        return found[0]
    if refusal is not None:
        raise refusal
    raise await _build_unknown(api, "pool or node", name, Kind.POOLS, Kind.NODES)


async def _retry_pool(api: ApiClient, write: Write, name: str) -> Answer:
    raw = await _read(api, Kind.POOLS, name)
    pool, cluster = _parse_pool(raw), await _list(api, Kind.NODES)
    if cluster is None:
        requested = judge_told_retry(pool, _tell_time())
    else:
        requested = judge_pool_retry(pool, map(parse_node, cluster.nodes), _tell_time())
    if requested.value:
        path = _path(Kind.POOLS, name)
        await send(
            annotate(api, path, raw, names.ANNOTATION_RETRY, requested.value, dry_run=write.dry_run)
        )
    return _answer(write, f"pool/{name}", names.ANNOTATION_RETRY, requested, pool.retry)


async def _retry_node(api: ApiClient, write: Write, name: str) -> Answer:
    raw = await _read(api, Kind.NODES, name)
    node = parse_node(raw)
    owner = find_pool_of(node)
    found = await _find(api, Kind.POOLS, owner) if owner is not None else None
    pool = _parse_pool(found) if found is not None else None
    if pool is None:
        cluster = await _list(api, Kind.POOLS)
        pools, _ = parse_pools((cluster and cluster.pools) or ())
        if (pool := find_pool_to_join(node, pools)) is None:
            raise explain_no_pool(node, pools)
    requested = judge_node_retry(node, pool, _tell_time())
    if requested.value:
        path = _path(Kind.NODES, name)
        await send(
            annotate(api, path, raw, names.ANNOTATION_RETRY, requested.value, dry_run=write.dry_run)
        )
    return _answer(write, f"node/{name}", names.ANNOTATION_RETRY, requested, node.retry)


async def _list(api: ApiClient, *kinds: Kind) -> Cluster | None:
    """Read the objects of these kinds; None where they may not be listed."""
    cluster = await see(read_cluster(api, kinds, datetime.now(UTC)))
    return None if isinstance(cluster, Unseen) else cluster


async def _find(api: ApiClient, kind: Kind, name: str) -> Json | None:
    """Return the object; None where there is none of that name."""
    return await api.find(_path(kind, name))


def _path(kind: Kind, name: str) -> str:
    return f"{PATHS[kind]}/{quote(name, safe='')}"


async def _read(api: ApiClient, kind: Kind, name: str) -> Json:
    """Return the object. Raises `CommandError` where there is none."""
    if (raw := await _find(api, kind, name)) is None:
        raise await _build_unknown(api, "pool" if kind is Kind.POOLS else "node", name, kind)
    return raw


async def _build_unknown(api: ApiClient, what: str, name: str, *kinds: Kind) -> CommandError:
    cluster = await _list(api, *kinds)
    found = (*(cluster.pools or ()), *cluster.nodes) if cluster is not None else ()
    return build_unknown(what, name, [raw["metadata"]["name"] for raw in found])


async def _insist(say: Callable[[], Awaitable[Answer]], kind: Kind) -> Answer:
    """Judge and write; again, where the object changed in between."""
    for _ in range(ATTEMPTS):
        try:
            with naming_rights(_RIGHTS[kind]):
                return await say()
        except NotCalledForError as error:
            raise CommandError(Exit.NOT_CALLED_FOR, str(error)) from error
        except RecordError as error:
            raise CommandError(Exit.FAILURE, f"nothing was written: {error}") from error
        except ApiError as error:
            owners = [c.get("message", "") for c in error.causes if c.get("reason") == _OWNED]
            if error.is_conflict and owners:
                raise CommandError(
                    Exit.NOT_CALLED_FOR,
                    f"nothing was written: {'. '.join(owners)}. Change it there, or take it over "
                    "with --force-conflicts",
                ) from error
            if not error.is_conflict:
                raise
    raise CommandError(
        Exit.INCOMPLETE, "nothing was written: the object changed during each attempt. Try again"
    )


def _parse_pool(raw: Json) -> Pool:
    pool = parse_pool(raw)
    if isinstance(pool, UnreadablePool):
        message = f"nothing was written: pool {pool.name} can't be read: {pool.error}"
        raise CommandError(Exit.FAILURE, message)
    return pool


def _tell_time() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _answer(
    write: Write, target: str, field: str, requested: RequestedValue, stands: str, *, more: str = ""
) -> Answer:
    """Build the answer: what was written, or is set already."""
    value = requested.value or stands
    if not requested.value:
        told = f"{target}: no change, {field} is already {value} ({requested.about})"
    elif write.dry_run:
        told = (
            f"{target}: {field} would be {value} ({requested.about}). Dry run: nothing was written"
        )
    else:
        told = f"{target}: {field} is {value} ({requested.about})"
    return Answer(
        {
            "object": target,
            "field": field,
            "value": value,
            "about": requested.about,
            "written": bool(requested.value) and not write.dry_run,
            "dryRun": write.dry_run,
            "fieldManager": names.COMMAND_MANAGER,
            "messages": [told, *([more] if more else [])],
        },
        build_messages,
    )
