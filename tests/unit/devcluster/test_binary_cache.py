"""Building the control plane's binaries, against a ``go`` that only pretends to compile."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from devcluster.locks import exclusive
from devcluster.progress import BuildProgress
from devcluster.toolchain import GoModule, build_cache_key, ensure_binaries

GO = """#!/bin/sh
case $1 in
  version) echo go version go1.26.8 linux/amd64 ;;
  build) while [ "$1" != -o ]; do shift; done; touch "$2/part"; chmod +x "$2/part" ;;
esac
"""


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


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A cache of its own, and the pretended ``go`` before all programs."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "go").write_text(GO)
    (programs / "go").chmod(0o755)
    path = os.pathsep.join((str(programs), os.environ["PATH"]))
    return {"PATH": path, "XDG_CACHE_HOME": str(tmp_path / "cache")}


@pytest.mark.parametrize("is_same", [False, True])
def test_a_build_waits_for_another_of_its_go_mod_alone(
    module: GoModule, environment: dict[str, str], tmp_path: Path, is_same: bool
) -> None:
    module, told = replace(module, packages=("./part",)), list[str]()
    lock = tmp_path / "cache" / "gpushare-devcluster" / f"{module.folder.name}.lock"

    def report(text: str) -> None:
        told.append(text)
        if "waiting" in text:
            raise InterruptedError

    with exclusive(lock if is_same else lock.with_name("another.lock"), on_wait=lambda: None):
        try:
            built = ensure_binaries(environment, module, report=report)
            assert (built / "part").exists()
        except InterruptedError:
            pass
    assert any("waiting" in text for text in told) is is_same


def test_a_small_build_on_a_busy_machine_is_not_said_to_be_over_in_a_moment() -> None:
    """A fifth took 25 s; what is known of an idle machine counts no more then."""
    total = BuildProgress(packages=139, work=35.0)
    so_far = BuildProgress(packages=28, work=7.0, total=total)
    assert "about 1 min left" in so_far.sentence(25, 25)
    first = BuildProgress(packages=28, work=7.0, total=replace(total, packages=3000, work=700.0))
    assert "about 6 min left" in first.sentence(4, 4)
