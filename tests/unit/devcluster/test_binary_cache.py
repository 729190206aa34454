"""Building the control plane's binaries, against a ``go`` that only pretends to compile."""

from pathlib import Path

import pytest

from devcluster.toolchain import GoModule, build_cache_key


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
