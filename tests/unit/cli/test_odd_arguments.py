"""What is typed and can be no name, namespace or key: refused before any call."""

import pytest

from gpushare.cli.exit_codes import Exit
from tests.kit.cluster.command_line import run_command

Words = tuple[str, ...]

NAMES = ("..", ".", "a/b", "a b", "a\nb", "-", "a..b", "ä", "a" * 254, "n1?x=1#")
NAMED: list[Words] = [
    ("inspect",),
    ("explain", "pod"),
    ("explain", "node"),
    ("explain", "pool"),
    ("plan", "pool"),
    ("approve",),
    ("render", "teardown"),
]
NAMESPACES = ("..", "../x", "a.b", "a/b", "x?y=1#", " ", "a" * 64)
SPACED: list[Words] = [
    ("doctor", "-n"),
    ("doctor", "--operator-namespace"),
    ("explain", "pod", "a", "-n"),
    ("inspect", "--pools", "-n"),
    ("migrate", "workloads", "-n"),
    ("render", "device-plugin", "--image", "a", "-n"),
]
WRITTEN = ("ack.node.gpu.schedule", "gpushare.io/pool")
KEYS = ("a b", "$(id)", "a\nb", "/a", "a/b/c", "a" * 64, *WRITTEN)
KEYED: list[Words] = [("adopt",), ("migrate", "pools")]


def expect_refused(*arguments: str) -> None:
    """A mistake of who types: were there a call, it would end for want of a kubeconfig."""
    ended = run_command(*arguments)
    assert (ended.code, ended.out) == (Exit.USAGE, ""), ended
    assert "Usage:" in ended.err


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("command", NAMED, ids=" ".join)
def test_what_no_object_is_called_is_no_name(command: Words, name: str) -> None:
    expect_refused(*command, "--", name)


@pytest.mark.parametrize("name", ["node/", "pool/", "/n1", "node/..", "..", "pool/a b"])
def test_a_retry_needs_a_name_behind_the_kind(name: str) -> None:
    expect_refused("retry", "--", name)


@pytest.mark.parametrize("namespace", NAMESPACES)
@pytest.mark.parametrize("command", SPACED, ids=" ".join)
def test_what_no_namespace_is_called_is_none(command: Words, namespace: str) -> None:
    expect_refused(*command, namespace)


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("command", KEYED, ids=" ".join)
def test_a_node_pools_label_has_a_key_and_is_none_that_the_operator_writes(
    command: Words, key: str
) -> None:
    expect_refused(*command, "--node-pool-label", key)


@pytest.mark.parametrize(
    "arguments",
    [
        ("doctor", "-n", ""),
        ("doctor", "--namespace="),
        ("migrate", "workloads", "-n", ""),
        ("migrate", "workloads", "-f", ""),
        ("migrate", "workloads", "--filename="),
        ("explain", "--filename="),
        ("plan", "-f", ""),
        ("adopt", "--node-pool-label="),
        ("retry", ""),
        ("inspect", ""),
        ("inspect", "--snapshot", ""),
        ("approve", "training", "--hash", ""),
        ("render", "teardown", ""),
    ],
    ids=" ".join,
)
def test_an_unset_variable_is_no_wish_for_all_however_it_is_given(arguments: Words) -> None:
    ended = run_command(*arguments)
    assert (ended.code, ended.out) == (Exit.USAGE, "")
    assert "is empty. Is a variable not set?" in ended.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("inspect", "--nonsense"),
        ("inspect", "--pools", "n1"),
        ("inspect", "-n", "default"),
        ("plan",),
        ("plan", "pool"),
        ("plan", "pool", "training", "-f", "pool.yaml"),
        ("plan", "node", "n1"),
        ("explain",),
        ("explain", "pod"),
        ("explain", "deployment", "web"),
        ("explain", "pod", "web", "-f", "a.yaml"),
        ("explain", "node", "gpu-1", "-n", "default"),
        ("explain", "pool", "training", "-n", "default"),
        ("explain", "pool", "training", "-R"),
        ("migrate", "workloads"),
        ("migrate", "workloads", "-A", "-n", "a"),
        ("migrate", "workloads", "-f", "a", "-l", "a=b"),
        ("migrate", "workloads", "-A", "-R"),
        ("migrate", "workloads", "-A", "--snapshot", "a"),
        ("render", "device-plugin"),
        ("render", "device-plugin", "--image", "a b"),
        ("render", "scheduler-extender", "--image", "a\n"),
    ],
    ids=" ".join,
)
def test_what_does_not_go_together_is_no_command_line(arguments: Words) -> None:
    expect_refused(*arguments)
