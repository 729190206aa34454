"""Pools that a person has in files, and has not applied."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from gpushare import names
from gpushare.api.manifest import ManifestError, parse_manifest
from gpushare.api.pool import Pool
from gpushare.cli.exits import CommandError, Exit
from gpushare.cli.manifests import Given


@dataclass(frozen=True, slots=True)
class GivenPools:
    """The pools of some files, and what else is in those."""

    pools: tuple[Pool, ...]
    skipped: tuple[str, ...]
    """As `kind/name`."""


def find_pools(objects: Sequence[Given], now: datetime) -> GivenPools:
    """The pools among these objects, as an apply would make them at `now`.

    Raises `CommandError` for the first that the API server would refuse, or if there is none.
    """
    pools: dict[str, Pool] = {}
    skipped = []
    for given in objects:
        if given.raw["kind"] != names.KIND:
            skipped.append(given.shown)
            continue
        try:
            pool = parse_manifest(given.raw, now)
        except ManifestError as error:
            raise CommandError(Exit.MANIFEST, f"{given.source}: {error}") from error
        if pool.name in pools:
            message = f"{given.source}: {pool.name} is given twice; keep one of them"
            raise CommandError(Exit.MANIFEST, message)
        pools[pool.name] = pool
    if not pools:
        message = f"there is no {names.KIND} among {', '.join(skipped)}"
        raise CommandError(Exit.MANIFEST, message)
    return GivenPools(tuple(pools.values()), tuple(skipped))
