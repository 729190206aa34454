"""Building the control plane's binaries, against a ``go`` that only pretends to compile."""

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from devcluster import toolchain
from devcluster.errors import ToolchainError
from devcluster.progress import BuildProgress, ProgressLine
from devcluster.toolchain import (
    CONTROL_PLANE,
    KUBE_SCORE,
    GoModule,
    build_cache_key,
    ensure_binaries,
    find_binaries,
)
from devcluster.versions import adapt_go_mod, ensure_version

FAKE_GO = """#!/bin/sh
case "$1" in
  version) echo "go version {version} linux/amd64" ;;
  list) printf 'a/one\\na/two\\n' ;;
  mod) echo '{download}' ;;
  build)
    while [ "$1" != -o ]; do shift; done
    for name in {built}; do echo fake > "$2/$name"; chmod +x "$2/$name"; done
    echo $$ > "{log}"
    {then} ;;
esac
"""
UPSTREAM = """module k8s.io/kubernetes

go 1.22.0

require (
\tk8s.io/api v0.0.0
\tgopkg.in/warnings.v0 v0.1.2 // indirect
)

replace (
\tk8s.io/api => ./staging/src/k8s.io/api
)
"""
AS_BUILT = " ".join("server" if name == "etcd" else name for name in CONTROL_PLANE.binaries)


class FakeGo:
    """A ``go`` on a PATH of its own, and a cache folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.bin = folder / "go-bin"
        self.bin.mkdir()
        self.cache = folder / "cache" / "gpushare-devcluster"
        self.log = folder / "go-build.pid"
        self.environment: Mapping[str, str] = {
            "PATH": f"{self.bin}{os.pathsep}/usr/bin{os.pathsep}/bin",
            "XDG_CACHE_HOME": str(folder / "cache"),
        }
        self.install()

    def install(
        self,
        *,
        version: str = "go1.26.9",
        built: str = AS_BUILT,
        then: str = "true",
        download: str = "",
    ) -> None:
        script = self.bin / "go"
        settings = {"version": version, "built": built, "then": then, "download": download}
        script.write_text(FAKE_GO.format(**settings, log=self.log))
        script.chmod(0o755)

    def left(self) -> list[str]:
        return sorted(entry.name for entry in self.cache.iterdir() if entry.name != "lock")


@pytest.fixture
def go(tmp_path: Path) -> FakeGo:
    return FakeGo(tmp_path)


def silent(text: str) -> None:
    """Nobody reads the reports."""


def test_a_build_leaves_one_folder_with_every_binary_and_etcd_under_its_own_name(
    go: FakeGo,
) -> None:
    folder = ensure_binaries(go.environment, report=silent)
    assert sorted(entry.name for entry in folder.iterdir()) == sorted(CONTROL_PLANE.binaries)
    assert go.left() == [folder.name]


def test_a_second_call_builds_nothing(go: FakeGo) -> None:
    first = ensure_binaries(go.environment, report=silent)
    go.log.unlink()
    assert ensure_binaries(go.environment, report=silent) == first
    assert not go.log.exists()


def test_binaries_are_found_once_they_are_built_and_looking_builds_none(go: FakeGo) -> None:
    assert find_binaries(go.environment) is None
    assert not go.log.exists()
    folder = ensure_binaries(go.environment, report=silent)
    assert find_binaries(go.environment) == folder
    assert find_binaries(go.environment, KUBE_SCORE) is None


def test_binaries_are_not_found_in_a_folder_of_the_users_that_lacks_them(
    go: FakeGo, tmp_path: Path
) -> None:
    ensure_binaries(go.environment, report=silent)
    assert find_binaries({**go.environment, "DEVCLUSTER_BIN": str(tmp_path)}) is None


def test_each_module_has_a_folder_of_its_own(go: FakeGo) -> None:
    control_plane = ensure_binaries(go.environment, report=silent)
    go.install(built="kube-score")
    said: list[str] = []
    folder = ensure_binaries(go.environment, KUBE_SCORE, report=said.append)
    assert [entry.name for entry in folder.iterdir()] == ["kube-score"]
    assert go.left() == sorted([control_plane.name, folder.name])
    assert said[-1] == "kube-score is built"


def test_a_failed_build_quotes_go_says_what_to_do_and_leaves_nothing(go: FakeGo) -> None:
    go.install(then="echo 'one.go:1: no space left on device'; exit 1")
    with pytest.raises(ToolchainError, match=r"no space left on device(.|\n)*call again"):
        ensure_binaries(go.environment, report=silent)
    assert go.left() == []


def test_an_incomplete_build_is_refused_and_leaves_nothing(go: FakeGo) -> None:
    go.install(built=AS_BUILT.replace("kubectl", ""))
    with pytest.raises(ToolchainError, match="made no kubectl"):
        ensure_binaries(go.environment, report=silent)
    assert go.left() == []


def test_an_interrupted_build_ends_its_processes_and_leaves_nothing(
    go: FakeGo, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupted(ProgressLine):
        def show(self, progress: BuildProgress) -> None:
            if go.log.exists():
                raise KeyboardInterrupt

    monkeypatch.setattr(toolchain, "ProgressLine", Interrupted)
    go.install(then="exec sleep 60")
    said: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        ensure_binaries(go.environment, report=said.append)
    assert "interrupted; call again" in said[-1]
    assert go.left() == []
    with pytest.raises(ProcessLookupError):
        os.kill(int(go.log.read_text()), 0)


def test_the_call_after_an_interrupt_that_killed_everything_clears_up_and_builds(
    go: FakeGo,
) -> None:
    (go.cache / "building-x" / "bin").mkdir(parents=True)
    folder = ensure_binaries(go.environment, report=silent)
    assert go.left() == [folder.name]


def test_binaries_of_ones_own_are_used_as_they_are(go: FakeGo, tmp_path: Path) -> None:
    built = ensure_binaries(go.environment, report=silent)
    own = built.rename(tmp_path / "own")
    assert ensure_binaries({**go.environment, "DEVCLUSTER_BIN": str(own)}) == own
    assert go.left() == []


def test_a_folder_of_ones_own_that_lacks_a_binary_is_refused_by_name(
    go: FakeGo, tmp_path: Path
) -> None:
    own = ensure_binaries(go.environment, report=silent).rename(tmp_path / "own")
    (own / "helm").chmod(0o644)
    (own / "etcd").unlink()
    with pytest.raises(ToolchainError, match="lacks etcd, helm"):
        ensure_binaries({**go.environment, "DEVCLUSTER_BIN": str(own)})


def test_what_a_folder_of_ones_own_lacks_beside_the_control_plane_is_built(
    go: FakeGo, tmp_path: Path
) -> None:
    own = ensure_binaries(go.environment, report=silent).rename(tmp_path / "own")
    environment = {**go.environment, "DEVCLUSTER_BIN": str(own)}
    go.install(built="kube-score")
    built = ensure_binaries(environment, KUBE_SCORE, report=silent)
    assert built.parent == go.cache
    assert find_binaries(environment, KUBE_SCORE) == built
    (built / "kube-score").rename(own / "kube-score")
    assert ensure_binaries(environment, KUBE_SCORE, report=silent) == own


def test_another_versions_folder_holds_its_control_plane_and_the_usual_rest(
    go: FakeGo, tmp_path: Path
) -> None:
    usual = ensure_binaries(go.environment, report=silent)
    for name in ("go.mod", "go.sum"):
        (tmp_path / name).write_text(UPSTREAM)
    download = json.dumps({"Version": "v1.30.14", "Dir": str(tmp_path)})
    go.install(built="kube-apiserver kube-controller-manager kube-scheduler", download=download)
    folder = ensure_version("1.30", go.environment, report=silent)
    assert ensure_binaries({**go.environment, "DEVCLUSTER_BIN": str(folder)}) == folder
    kept = [name for name in CONTROL_PLANE.binaries if (folder / name).samefile(usual / name)]
    assert kept == ["etcd", "helm", "kubectl", "kwok", "kwokctl"]
    go.log.unlink()
    own = {**go.environment, "DEVCLUSTER_BIN": str(usual)}
    assert ensure_version("1.30", own, report=silent) == folder
    assert not go.log.exists()


def test_a_version_that_does_not_exist_is_told_in_gos_words(go: FakeGo) -> None:
    ensure_binaries(go.environment, report=silent)
    go.install(download="no matching versions'; exit 1; echo '")
    with pytest.raises(ToolchainError, match="no matching versions"):
        ensure_version("1.99", go.environment, report=silent)


def test_another_version_is_built_with_what_upstream_pins() -> None:
    adapted = adapt_go_mod(UPSTREAM, "v1.30.14")
    assert "go 1.22.0\n" in adapted
    assert "module k8s.io/kubernetes" not in adapted
    assert "\tk8s.io/api => k8s.io/api v0.30.14\n" in adapted
    assert "staging" not in adapted
    assert "version.gitVersion=v1.30.14 " in toolchain.build_ldflags(adapted)


def test_a_go_that_is_too_old_makes_way_for_the_pinned_one(go: FakeGo) -> None:
    go.install(version="go1.25.3")
    found = toolchain.observe_toolchain(go.environment)
    requirements = toolchain._GO_REQUIREMENTS.read_text()
    assert found.version == toolchain.parse_pinned_go(requirements)


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


def test_the_cache_key_changes_with_what_is_built_and_with_the_compiler(module: GoModule) -> None:
    others = replace(module, packages=("./other",)), replace(module, tags="small")
    keys = {build_cache_key(each, "go1.26.6") for each in (module, *others)}
    assert len(keys | {build_cache_key(module, "go1.27.0")}) == 4


def test_the_cache_key_does_not_change_by_itself(module: GoModule) -> None:
    key = build_cache_key(module, "go1.26.6")
    assert build_cache_key(module, "go1.26.6") == key
    assert key.endswith("-go1.26.6")


def test_the_linker_gives_the_binaries_the_version_that_go_mod_requires() -> None:
    flags = toolchain.build_ldflags("require (\n\tk8s.io/kubernetes v1.37.0 // indirect\n)\n")
    assert "version.gitVersion=v1.37.0 " in flags
    assert flags.endswith("version.gitMinor=37")
    assert toolchain.build_ldflags("require k8s.io/api v0.32.3\n") == ""


@pytest.mark.parametrize(
    ("text", "version"),
    [("go1.26.6", (1, 26)), ("go1.27rc1", (1, 27)), ("devel", None), ("", None)],
)
def test_versions_are_read_as_go_names_them(text: str, version: tuple[int, int] | None) -> None:
    assert toolchain.parse_go_version(text) == version
