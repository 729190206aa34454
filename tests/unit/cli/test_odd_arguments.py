"""What is typed and can be no name, namespace, key or selector: refused before any call."""

import pytest

from gpushare.cli.exits import Exit
from tests.kit.cluster.command_line import run_command

NAMES = ("..", ".", "a/b", "a b", "a\nb", "-", "a..b", "ä", "a" * 254, "n1?x=1#")


def expect_refused(*arguments: str) -> None:
    """A mistake of who types: were there a call, it would end for want of a kubeconfig."""
    ended = run_command(*arguments)
    assert (ended.code, ended.out) == (Exit.USAGE, ""), ended
    assert "Usage:" in ended.err


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "command",
    [
        ("inspect",),
        ("explain", "pod"),
        ("explain", "node"),
        ("explain", "pool"),
        ("plan", "pool"),
        ("approve",),
        ("render", "teardown"),
    ],
    ids=" ".join,
)
def test_what_no_object_is_called_is_no_name(command: tuple[str, ...], name: str) -> None:
    expect_refused(*command, "--", name)


@pytest.mark.parametrize("name", ["node/", "pool/", "/n1", "node/..", "..", "pool/a b"])
def test_a_retry_needs_a_name_behind_the_kind(name: str) -> None:
    expect_refused("retry", "--", name)


@pytest.mark.parametrize("namespace", ["..", "../x", "a.b", "a/b", "x?y=1#", " ", "a" * 64])
@pytest.mark.parametrize(
    "command",
    [
        ("doctor", "-n"),
        ("doctor", "--operator-namespace"),
        ("explain", "pod", "a", "-n"),
        ("inspect", "--pools", "-n"),
        ("migrate", "workloads", "-n"),
        ("render", "device-plugin", "--image", "a", "-n"),
        ("render", "teardown", "n1", "-n"),
    ],
    ids=" ".join,
)
def test_what_no_namespace_is_called_is_none(command: tuple[str, ...], namespace: str) -> None:
    expect_refused(*command, namespace)


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
def test_an_unset_variable_is_no_wish_for_all_however_it_is_given(
    arguments: tuple[str, ...],
) -> None:
    ended = run_command(*arguments)
    assert (ended.code, ended.out) == (Exit.USAGE, "")
    assert "is empty; is a variable not set?" in ended.err


@pytest.mark.parametrize("selector", ["a=b=c", "a b", "a=b,", "!", "a in b", "=b", "a=b&limit=1"])
def test_what_is_no_selector_is_refused(selector: str) -> None:
    expect_refused("migrate", "workloads", "-A", "-l", selector)


@pytest.mark.parametrize(
    "selector",
    ["app", "!app", "app=", "a=b,c!=d", "example.com/a == b", "a in (b, c),!d", "a notin ()"],
)
def test_selectors_of_kubectl_are_taken(selector: str) -> None:
    ended = run_command("migrate", "workloads", "-A", "-l", selector)
    assert ended.code == Exit.NO_CREDENTIALS, ended


@pytest.mark.parametrize("key", ["a b", "$(id)", "a\nb", "/a", "a/b/c", "a" * 64])
@pytest.mark.parametrize("command", [("adopt",), ("migrate", "pools")], ids=" ".join)
def test_what_is_no_key_of_a_label_is_refused(command: tuple[str, ...], key: str) -> None:
    expect_refused(*command, "--node-pool-label", key)


@pytest.mark.parametrize(
    "arguments",
    [
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
    ],
    ids=" ".join,
)
def test_what_does_not_go_together_is_no_command_line(arguments: tuple[str, ...]) -> None:
    expect_refused(*arguments)
