"""The image as buildah builds it where there is no container engine, and what is in it."""

import json
import os
import platform
import shutil
import subprocess
import tarfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from devcluster import images
from devcluster.images import build_operator_image, build_program_image
from devcluster.node.machine import ensure_packages
from devcluster.startup import PROJECT
from tests.release.oci_registry import run_registry

pytestmark = [
    pytest.mark.skipif(
        platform.system() != "Linux" or os.geteuid() != 0 or not shutil.which("apt-get"),
        reason="buildah builds images as root, on Linux; here it comes from Debian's packages",
    ),
    pytest.mark.usefixtures("buildah_installed"),
]
TAG = "localhost/gpushare-operator:test-release"
SOURCE = "https://git.example/gpushare-operator"
VERSION = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["version"]


def buildah(*arguments: str) -> str:
    return subprocess.run(
        ["buildah", *arguments], capture_output=True, text=True, check=True
    ).stdout


@dataclass(frozen=True)
class Built:
    """An image on its base."""

    base: str

    @property
    def config(self) -> dict[str, Any]:
        config: dict[str, Any] = inspect(TAG)["OCIv1"]["config"]
        return config

    def read_added_files(self, folder: Path) -> set[str]:
        """Paths of all files in the layers on top of the base."""
        buildah("push", "--quiet", "--disable-compression", TAG, f"dir:{folder}")
        layers = json.loads((folder / "manifest.json").read_text())["layers"]
        below = len(inspect(self.base)["OCIv1"]["rootfs"]["diff_ids"])
        added: set[str] = set()
        for layer in layers[below:]:
            with tarfile.open(folder / layer["digest"].removeprefix("sha256:")) as archive:
                added |= {entry.name for entry in archive if not entry.isdir()}
        return added


def inspect(image: str) -> dict[str, Any]:
    described: dict[str, Any] = json.loads(buildah("inspect", "--type=image", image))
    return described


@pytest.fixture(scope="module")
def buildah_installed() -> None:
    """This suite is the first that needs it on a new machine, before a node is made there."""
    ensure_packages(print)


@pytest.fixture(scope="module")
def built(buildah_installed: None) -> Built:
    """On the base of Debian's packages, wherever the Dockerfile's could be pulled, too."""
    said: list[str] = []
    build_args = {"VERSION": VERSION, "REVISION": "5" * 40, "SOURCE": SOURCE}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(images, "read_base", lambda *_: f"localhost:1/none@sha256:{'0' * 64}")
        build_operator_image(TAG, build_args=build_args, report=said.append)
    (base,) = {line.rpartition(": ")[2] for line in said if "stands in" in line}
    return Built(base)


@pytest.fixture
def container(built: Built) -> Iterator[str]:
    name = buildah("from", "--pull-never", TAG).strip()
    yield name
    buildah("rm", name)


def test_it_starts_as_the_charts_user_who_has_no_name(container: str) -> None:
    user = ("run", "--isolation=chroot", "--user=65532:65532", container, "--")
    assert buildah(*user, "gpushare", "--version").strip().endswith(VERSION)
    identity = "import os, pwd; pwd.getpwuid(os.getuid())"
    with pytest.raises(subprocess.CalledProcessError):
        buildah(*user, "python", "-c", identity)


def test_the_build_adds_the_programs_folder_and_nothing_of_the_machine(
    built: Built, tmp_path: Path
) -> None:
    added = built.read_added_files(tmp_path)
    assert "opt/gpushare/bin/gpushare" in added
    assert {path for path in added if not path.startswith("opt/gpushare/")} == set()


def test_a_container_gets_no_variable_but_the_dockerfiles(built: Built) -> None:
    base = inspect(built.base)["OCIv1"]["config"].get("Env", [])
    names = {line.partition("=")[0] for line in {*built.config["Env"]} - {*base}}
    assert names == {"PATH", "PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED"}


def test_its_labels_say_what_it_was_built_from(built: Built) -> None:
    prefix = "org.opencontainers.image."
    told = {name: built.config["Labels"][prefix + name] for name in ("version", "source")}
    assert told == {"version": VERSION, "source": SOURCE}
    assert built.config["Labels"][f"{prefix}revision"] == "5" * 40


def test_the_dockerfiles_base_goes_before_debians_where_it_can_be_pulled(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Of a base and a Dockerfile of one file each, since only where the base comes from counts."""
    (tmp_path / "python").write_text("")
    said: list[str] = []
    with run_registry() as registry:
        conf, digest = tmp_path / "registries.conf", tmp_path / "digest"
        conf.write_text(f'[[registry]]\nlocation = "{registry}"\ninsecure = true\n')
        monkeypatch.setenv("CONTAINERS_REGISTRIES_CONF", str(conf))
        base, tag = f"{registry}/python", f"{registry}/built"
        build_program_image(base, tmp_path / "python")
        try:
            buildah("push", "--quiet", f"--digestfile={digest}", base)
            buildah("rmi", base)
            (tmp_path / "Dockerfile").write_text(
                "ARG BASE_REGISTRY=docker.io/library\n"
                f"FROM $BASE_REGISTRY/python@{digest.read_text()} AS base\n"
                "FROM base\nCOPY python /copied\n"
            )
            registries = {"BASE_REGISTRY": registry}
            build_operator_image(tag, source=tmp_path, build_args=registries, report=said.append)
            layers = inspect(tag)["OCIv1"]["rootfs"]["diff_ids"]
        finally:
            buildah("rmi", "--force", tag)
    assert not any("Debian" in line for line in said)
    assert len(layers) == 2
