"""Checks of the steps."""

from collections.abc import Iterable, Mapping, Sequence

from demo.sights import Node, Pod
from devcluster.errors import DevclusterError


class UnmetError(DevclusterError):
    """A check failed; the message has the expected and the actual result."""


def expect(condition: bool, expectation: str, actual: object) -> None:
    """Raise :class:`UnmetError` unless ``condition`` holds, with the other two in its message."""
    if not condition:
        raise UnmetError(f"Expected {expectation}; seen: {actual}.")


def expect_equal(actual: object, wanted: object, what: str) -> None:
    """Raise :class:`UnmetError` unless ``actual`` is ``wanted``; ``what`` names them."""
    expect(actual == wanted, f"{what} to be {wanted}", actual)


def expect_line(output: Iterable[str], *parts: str) -> str:
    """Find a printed line with all ``parts`` in it; return it with a space between its columns."""
    lines = [" ".join(line.split()) for line in output]
    match = next((line for line in lines if all(part in line for part in parts)), "")
    expect(bool(match), f"a line with {', and '.join(parts)}", lines)
    return match


def expect_memory(pod: Pod, mib: int, *, isolated: bool) -> str:
    """Check the memory that nvidia-smi shows in the pod, and whether it is a limit; return a
    sentence."""
    got = pod.got
    what = "isolated" if isolated else "not isolated"
    expect(
        (got.visible_memory_mib, got.isolated) == (mib, isolated),
        f"{pod.name} to be {what} and to see {mib} MiB",
        got,
    )
    extent = "its share" if isolated else "the whole card"
    return f"{pod.name} on {pod.node}: {what}, sees {mib} MiB ({extent})"


def expect_one_restart_each(
    nodes: Iterable[Node], *, restarts: Mapping[str, int], turns: Sequence[str]
) -> str:
    """Check that the operator deleted a plugin pod on each of ``nodes``, one node at a time; return
    a sentence."""
    names = [node.name for node in nodes]
    expect_restarted_once(names, restarts)
    expect(
        len(turns) == len(names),
        f"each of {', '.join(names)} done before the next is touched",
        f"writes to {', then to '.join(turns)}",
    )
    return f"the plugin's pod was deleted exactly once on {', then on '.join(turns)}"


def expect_restarted_once(nodes: Sequence[str], restarts: Mapping[str, int]) -> str:
    """Check that the operator deleted one plugin pod on each of ``nodes`` and none elsewhere;
    return a sentence."""
    wanted = dict.fromkeys(nodes, 1)
    expect_equal(dict(restarts), wanted, "the deletions of the plugin's pods, by node,")
    return f"the plugin's pod was deleted exactly once on {', '.join(nodes)}"
