"""What Krew installs: the archive, unpacked elsewhere and started by kubectl, and its manifest."""

import io
import os
import platform
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import yaml

from tests.kit.cluster.kubeconfigs import write_kubeconfig
from tools.krew_plugin import MACHINES, PYTHON, build_archive, render_manifest

DIGESTS = {each: f"{number:064x}" for number, each in enumerate(MACHINES)}
SOURCE = "https://git.example/gpushare-operator"


@pytest.fixture(scope="module")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive for this machine, unpacked."""
    (here,) = (name for name, machine in MACHINES.items() if machine == platform.machine())
    folder = tmp_path_factory.mktemp("plugin")
    with tarfile.open(fileobj=io.BytesIO(build_archive(here))) as archive:
        archive.extractall(folder, filter="data")
    return folder


def test_it_starts_where_it_was_unpacked_by_a_link_as_krew_makes_it(
    plugin: Path, tmp_path: Path
) -> None:
    (tmp_path / f"python{PYTHON}").symlink_to(os.path.realpath(sys.executable))
    (tmp_path / "kubectl-gpushare").symlink_to(plugin / "kubectl-gpushare")
    environ = {"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": "/nonexistent"}
    command = ["kubectl-gpushare", "inspect"]

    shown = subprocess.run([*command, "--help"], env=environ, capture_output=True, text=True)
    assert shown.stdout.startswith("Usage: kubectl gpushare inspect"), shown.stderr
    # Where nothing listens: the kubeconfig has been read.
    at = {"server": "https://127.0.0.1:1"}
    kubeconfig = write_kubeconfig(tmp_path / "config", {"token": "t"}, cluster=at)
    for own, code in (({"HOME": "/none"}, 4), ({"KUBECONFIG": str(kubeconfig)}, 3)):
        failed = subprocess.run(command, env=environ | own, capture_output=True, text=True)
        assert (failed.returncode, failed.stdout) == (code, ""), failed.stderr


def test_the_licence_is_in_it(plugin: Path) -> None:
    assert "Apache License" in (plugin / "LICENSE").read_text()


def test_the_manifest_is_one_that_krew_takes() -> None:
    manifest = yaml.safe_load(render_manifest(SOURCE, DIGESTS))
    spec = manifest["spec"]
    assert (manifest["kind"], manifest["metadata"]["name"]) == ("Plugin", "gpushare")
    assert re.fullmatch(r"v\d+\.\d+\.\d+", spec["version"])
    assert len(spec["shortDescription"]) <= 50
    assert not spec["shortDescription"].endswith(".")
    for built, digest in DIGESTS.items():
        system, machine = built.split("_")
        (entry,) = (
            each
            for each in spec["platforms"]
            if each["selector"]["matchLabels"] == {"os": system, "arch": machine}
        )
        assert entry["sha256"] == digest
        assert entry["uri"].startswith(f"{SOURCE}/releases/download/{spec['version']}/")
        assert entry["uri"].endswith(f"/kubectl-gpushare_{built}.tar.gz")
        assert entry["bin"] == "kubectl-gpushare"
