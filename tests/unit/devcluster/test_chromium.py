"""Which browser tests take: the one that is named, the machine's, or the one in the cache."""

import os
from pathlib import Path

import pytest

from devcluster.chromium import Chromium, ensure_chromium, find_chromium
from devcluster.errors import ToolchainError


def put_program(file: Path) -> Path:
    """A file that can be run."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch(mode=0o755)
    return file


def test_the_one_that_is_named_goes_before_all_others(tmp_path: Path) -> None:
    put_program(tmp_path / "chromium")
    environment = {"PATH": str(tmp_path), "CHROMIUM": "/opt/browser"}
    assert find_chromium(environment) == Chromium(Path("/opt/browser"))


def test_then_the_unpacked_one_with_the_libraries_that_came_with_it(tmp_path: Path) -> None:
    root = tmp_path / "gpushare-devcluster/chromium"
    unpacked = put_program(root / "usr/lib/chromium/chromium-headless-shell")
    found = find_chromium({"PATH": "", "XDG_CACHE_HOME": str(tmp_path)})
    assert found is not None
    assert found.program == unpacked
    path = found.build_environment({"LD_LIBRARY_PATH": "/opt/lib"})["LD_LIBRARY_PATH"]
    first, *_, last = path.split(":")
    assert first.startswith(str(root / "usr/lib"))
    assert last == "/opt/lib"


def test_where_there_is_none_and_no_debian_the_way_out_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda name, path=None: None)
    with pytest.raises(ToolchainError, match="CHROMIUM=/path/to/it"):
        ensure_chromium({"PATH": "", "XDG_CACHE_HOME": str(tmp_path)})
    assert os.listdir(tmp_path) == []
