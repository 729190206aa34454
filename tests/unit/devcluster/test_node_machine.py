"""What a machine lacks that can't hold a real node, and how its cgroups are found."""

import os
from pathlib import Path

import pytest

from devcluster.node.cgroups import observe_cgroups
from devcluster.node.machine import find_obstacle


def build_v1(root: Path, *hierarchies: str) -> Path:
    for name in hierarchies:
        (root / name).mkdir()
        (root / name / "tasks").touch()
    return root


def test_a_user_who_is_not_root_is_told_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "sudo" in (find_obstacle() or "")


def test_version_2_alone_is_refused_by_name_with_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu io memory pids")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(
        "devcluster.node.machine.observe_cgroups", lambda: observe_cgroups(tmp_path)
    )
    obstacle = find_obstacle() or ""
    assert "version 2" in obstacle
    assert "unified_cgroup_hierarchy=0" in obstacle


def test_what_the_kubelet_needs_and_is_not_there_is_named(tmp_path: Path) -> None:
    found = observe_cgroups(build_v1(tmp_path, "cpu", "memory"))
    assert found.missing_controllers() == ["cpuset", "pids"]
