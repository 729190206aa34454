"""What the steps insist on."""

from collections.abc import Iterable, Mapping, Sequence

from demo.sights import Node, Pod
from devcluster.errors import DevclusterError


class UnmetError(DevclusterError):
    """Something did not come out as it must; the message says what was expected and seen."""


def expect(condition: bool, expectation: str, seen: object) -> None:
    """Raise :class:`UnmetError` unless ``condition`` holds; both others are parts of a sentence."""
    if not condition:
        raise UnmetError(f"Expected {expectation}; seen: {seen}.")


def expect_equal(found: object, wanted: object, what: str) -> None:
    """Raise :class:`UnmetError` unless ``what`` was found is what was wanted."""
    expect(found == wanted, f"{what} to be {wanted}", found)


def expect_said(said: Iterable[str], *parts: str) -> str:
    """A line that was printed, with all ``parts`` in it; that line, its columns a space apart."""
    lines = [" ".join(line.split()) for line in said]
    found = next((line for line in lines if all(part in line for part in parts)), "")
    expect(bool(found), f"a line with {', and '.join(parts)}", lines)
    return found


def expect_memory(pod: Pod, mib: int, *, isolated: bool) -> str:
    """What nvidia-smi shows in the pod: ``mib``, and whether that is a limit; as a sentence."""
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
    """The operator deleted one plugin pod on each of ``nodes``, one node at a time; a sentence."""
    names = [node.name for node in nodes]
    expect_restarted_once(names, restarts)
    expect(
        len(turns) == len(names),
        f"each of {', '.join(names)} done before the next is touched",
        f"writes to {', then to '.join(turns)}",
    )
    return f"the plugin's pod was deleted exactly once on {', then on '.join(turns)}"


def expect_restarted_once(nodes: Sequence[str], restarts: Mapping[str, int]) -> str:
    """The operator deleted one plugin pod on each of ``nodes``, and none elsewhere; a sentence."""
    wanted = dict.fromkeys(nodes, 1)
    expect_equal(dict(restarts), wanted, "the deletions of the plugin's pods, by node,")
    return f"the plugin's pod was deleted exactly once on {', '.join(nodes)}"
