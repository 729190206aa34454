"""Lines that tell how the label bench goes on."""

from tests.bench.event import EventCost, Repairs
from tests.bench.footprint import Use
from tests.bench.memory import Memory
from tests.bench.ratio import Round
from tests.bench.rest import Rest


def show_round(number: int, each: Round) -> str:
    """A line of the table of rounds."""
    return (
        f"round {number}: loop {each.floor_seconds:6.2f} s   operator "
        f"{each.operator_seconds:6.2f} s   ratio {each.ratio:5.2f}   writes to nodes: "
        f"{each.audited} in the audit log, {each.counted} applies counted; others: {each.other}"
    )


def show_event_cost(cost: EventCost) -> str:
    return (
        f"event at {cost.nodes} nodes: {cost.microseconds:.0f} us of CPU "
        f"(idle: {cost.idle_cores:.1%} of a core)"
    )


def show_repairs(repairs: Repairs, who: str = "the operator") -> str:
    return (
        f"{len(repairs.seconds)} labels removed: repaired by {who} within p50 {repairs.p50:.3f} s, "
        f"p99 {repairs.p99:.3f} s, at most {max(repairs.seconds):.3f} s; "
        f"{repairs.cpu_milliseconds:.1f} ms of CPU each"
    )


def show_memory(memory: Memory) -> str:
    return (
        f"memory at {memory.nodes} nodes and {memory.pods} pods: "
        f"{memory.after_labelling:.0f} MiB after labelling, {memory.after_start:.0f} MiB started "
        f"anew, peak {memory.peak:.0f} MiB"
    )


def show_rest(rest: Rest) -> str:
    uses = {
        "controller": rest.controller,
        "bare watcher": rest.watcher,
        "webhook": rest.webhook,
        "bare handler": rest.handler,
        "API server": rest.apiserver,
    }
    shown = (f"{name} {_show_use(use)}" for name, use in uses.items())
    return f"{rest.seconds:.0f} s at rest: {rest.writes} writes; {', '.join(shown)}"


def _show_use(use: Use) -> str:
    return f"{use.cores:.2%} of a core and {use.rss_mib:.0f} MiB"
