"""Building the control plane's binaries, against a ``go`` that only pretends to compile."""

from pathlib import Path

import pytest

from devcluster.errors import ToolchainError
from devcluster.toolchain import (
    CONTROL_PLANE,
    KUBE_SCORE,
    GoModule,
    build_cache_key,
    ensure_binaries,
    find_binaries,
)

FAKE_GO = """#!/bin/sh
case "$1" in
  version) echo "go version go1.26.9 linux/amd64" ;;
  list) printf 'a/one\\na/two\\n' ;;
  build)
    while [ "$1" != -o ]; do shift; done
    for name in {built}; do echo fake > "$2/$name"; chmod +x "$2/$name"; done
    {then} ;;
esac
"""
AS_BUILT = " ".join("server" if name == "etcd" else name for name in CONTROL_PLANE.binaries)


class FakeGo:
    """A ``go`` on a PATH of its own, and a cache folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.bin = folder / "go-bin"
        self.bin.mkdir()
        self.cache = folder / "cache" / "gpushare-devcluster"
        path, cache = f"{self.bin}:/usr/bin:/bin", str(folder / "cache")
        self.environment = {"PATH": path, "XDG_CACHE_HOME": cache}
        self.install()

    def install(self, *, then: str = "true") -> None:
        """Have it do that after a build."""
        script = self.bin / "go"
        script.write_text(FAKE_GO.format(built=AS_BUILT, then=then))
        script.chmod(0o755)

    def left(self) -> list[str]:
        return sorted(entry.name for entry in self.cache.iterdir() if entry.name != "lock")


@pytest.fixture
def go(tmp_path: Path) -> FakeGo:
    return FakeGo(tmp_path)


def silent(text: str) -> None:
    """Nobody reads the reports."""


def test_a_build_leaves_one_folder_with_every_binary_where_it_is_found(go: FakeGo) -> None:
    assert find_binaries(go.environment) is None
    folder = ensure_binaries(go.environment, report=silent)
    assert sorted(entry.name for entry in folder.iterdir()) == sorted(CONTROL_PLANE.binaries)
    assert go.left() == [folder.name]
    assert find_binaries(go.environment) == folder
    assert find_binaries(go.environment, KUBE_SCORE) is None


def test_a_failed_build_quotes_go_says_what_to_do_and_leaves_nothing(go: FakeGo) -> None:
    go.install(then="echo 'one.go:1: no space left on device'; exit 1")
    with pytest.raises(ToolchainError, match=r"no space left on device(.|\n)*call again"):
        ensure_binaries(go.environment, report=silent)
    assert go.left() == []


@pytest.fixture
def module(tmp_path: Path) -> GoModule:
    """A module with a source file of its own."""
    (tmp_path / "part").mkdir()
    for name in ("go.mod", "go.sum", "main.go", "part/main.go"):
        (tmp_path / name).write_text(name)
    return GoModule(tmp_path, "a program", (".", "./part"), "a minute")


@pytest.mark.parametrize("name", ["go.mod", "go.sum", "main.go", "another.go", "part/main.go"])
def test_the_cache_key_changes_with_the_file(module: GoModule, name: str) -> None:
    before = build_cache_key(module, "go1.26.6")
    (module.folder / name).write_text("changed")
    assert build_cache_key(module, "go1.26.6") != before
