"""Builds the answer of `gpushare recommend`: the next moves of idle nodes."""

from collections.abc import Iterator
from typing import Any

from gpushare.api.pool import Pool
from gpushare.api.pruned.cluster import Kind
from gpushare.cli.cluster.access import Access
from gpushare.cli.output.answer import Answer, Line
from gpushare.cli.output.tables import build_table, tell_time
from gpushare.kube.resources.pools import parse_pools

Json = dict[str, Any]


def list_recommendations(access: Access) -> Answer:
    """Show the next move to each pool, as the controller found it last."""
    pools, _ = parse_pools(access.read(Kind.POOLS).pools or ())
    elastic = [pool for pool in pools if pool.spec.demand is not None]
    document = {
        "recommendations": [_describe(pool) for pool in elastic if pool.status.recommendation],
        "elasticPools": [pool.name for pool in elastic],
    }
    return Answer(document, _build_page)


def _describe(pool: Pool) -> Json:
    found = pool.status.recommendation
    assert found is not None
    return {**found.model_dump(by_alias=True), "pool": pool.name, "since": tell_time(found.since)}


def _build_page(document: Json, wide: bool) -> Iterator[Line]:
    found = document["recommendations"]
    if not document["elasticPools"]:
        yield ("No pool has spec.demand: nodes do not move between pools",)
        return
    if not found:
        yield ("No move is recommended: docs/elastic.md says when one is",)
        return
    yield from build_table(
        "POOL:pool,NODE:node,FROM:source,PODS:pods,SINCE:since,HASH:hash", found, indent=0
    )
    for each in found:
        yield ()
        yield (each["message"],)
