"""Reads pools from manifests that are not applied yet."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gpushare import names
from gpushare.analysis.forecast.kept_fields import KeptField, find_kept_fields, keep_fields
from gpushare.api.manifest import ManifestError, parse_manifest
from gpushare.api.pool import Pool
from gpushare.cli.exit_codes import CommandError, Exit
from gpushare.cli.input.manifests import Given

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class GivenPools:
    """The pools of some files, and what else is in those."""

    pools: tuple[Pool, ...]
    skipped: tuple[str, ...]
    """`kind/name` of manifests that are no pools."""
    kept: Mapping[str, tuple[KeptField, ...]]
    """Fields that a pool's file leaves out and other managers own, by pool."""


def find_pools(objects: Sequence[Given], live: Sequence[Json], now: datetime) -> GivenPools:
    """Find the pools in these objects, as an apply at `now` would make them of the `live` ones.

    Raises `CommandError` for the first that the API server would reject, or if there is none.
    """
    pools: dict[str, Pool] = {}
    skipped = []
    present = {raw["metadata"]["name"]: raw for raw in live}
    kept: dict[str, tuple[KeptField, ...]] = {}
    for given in objects:
        if given.raw["kind"] != names.KIND:
            skipped.append(given.shown)
            continue
        try:
            pool = parse_manifest(given.raw, now)
        except ManifestError as error:
            raise CommandError(Exit.MANIFEST, f"{given.source}: {error}") from error
        if (before := present.get(pool.name)) is not None:
            kept[pool.name] = find_kept_fields(before, given.raw)
            pool = _parse_with(given, kept[pool.name], now)
        if pool.name in pools:
            message = f"{given.source}: pool {pool.name} is given twice. Keep one of them"
            raise CommandError(Exit.MANIFEST, message)
        pools[pool.name] = pool
    if not pools:
        message = f"no {names.KIND} found among {', '.join(skipped)}"
        raise CommandError(Exit.MANIFEST, message)
    return GivenPools(tuple(pools.values()), tuple(skipped), kept)


def _parse_with(given: Given, kept: Sequence[KeptField], now: datetime) -> Pool:
    """Parse the pool with `kept` added to what the file says."""
    try:
        return parse_manifest(keep_fields(given.raw, kept), now)
    except ManifestError as error:
        listed = ", ".join(map(str, kept))
        message = f"{given.source}: with fields that the file does not set, {listed}: {error}"
        raise CommandError(Exit.MANIFEST, message) from error
