"""Builds the answer of `gpushare simulate --free`: which pods would have to move."""

from collections.abc import Iterator
from typing import Any

from gpushare.analysis.placement.disruption_budget import parse_disruption_budget
from gpushare.analysis.placement.free import find_moves
from gpushare.api.pruned.cluster import Kind
from gpushare.cli.cluster.access import Access
from gpushare.cli.cluster.basis import OF_STACKS
from gpushare.cli.output.answer import Answer, Line, Styled
from gpushare.cli.output.tables import build_table
from gpushare.cli.simulate.queue import Wanted
from gpushare.cli.simulate.view import ask, describe_placement, list_gpus

Json = dict[str, Any]

_LACKS = {
    **OF_STACKS,
    Kind.PODDISRUPTIONBUDGETS: "PodDisruptionBudgets are unknown: they may keep a pod that would "
    "have to move",
}


def find_free(access: Access, pool: str, units: int) -> Answer:
    """Find the moves that give a pod of so many `units` a card of `pool`.

    Raises `CommandError`, and what `errors_as_sentences` knows.
    """
    asked = ask(access, (), Wanted(), Kind.PODDISRUPTIONBUDGETS)
    asked.check_pool(pool)
    budgets = tuple(map(parse_disruption_budget, asked.cluster.poddisruptionbudgets))
    answer = find_moves(asked.observed, pool, units, budgets)
    freed = answer.freed
    document = {
        "pool": pool,
        "units": units,
        "unit": asked.observed.setup.memory_unit,
        "fits": answer.fits,
        "freed": freed
        and {
            "node": freed.node,
            "card": freed.card,
            "units": freed.units,
            "moved": [describe_placement(each) for each in freed.moved],
        },
    }
    return asked.build_answer(document, _build_page, OF_STACKS if answer.fits else _LACKS)


def _build_page(document: Json, wide: bool) -> Iterator[Line]:
    asked, freed = f"{document['units']} {document['unit']}", document["freed"]
    pod = f"a pod of {asked} in pool {document['pool']}"
    if document["fits"]:
        yield (Styled(f"No pod has to move: {pod} gets a card now", "bold"),)
        return
    if freed is None:
        yield (Styled(f"No move of a few pods gives {pod} a card", "bold"),)
        told = "it has a controller, its PodDisruptionBudget allows it now, and it runs again"
        yield (f"A pod is moved only if {told}",)
        return
    told = f"{freed['units']} {document['unit']} would have to move for {pod}"
    yield (Styled(told, "bold"),)
    yield (f"It would get GPU {freed['card']} of node {freed['node']}",)
    yield ()
    columns = "NAMESPACE:namespace,POD:name,TO POOL:pool,TO NODE:node,GPU:gpus"
    yield from build_table(columns, list_gpus(freed["moved"]))
    yield ()
    yield ("To move one: cordon its node, evict the pod, then uncordon the node",)
