"""The chart as a release brings it: packaged, pushed to a registry, and installed from there."""

import difflib
import os
import re
import subprocess
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from devcluster.startup import CHART, PROJECT
from devcluster.toolchain import ensure_binaries
from tests.release.oci_registry import run_registry

REPOSITORY = "ghcr.io/owner/gpushare-operator"
IMAGE_DIGEST = f"sha256:{'5' * 64}"
VERSION = yaml.safe_load((CHART / "Chart.yaml").read_text())["version"]


@dataclass(frozen=True)
class Pushed:
    """The chart in a registry."""

    registry: str
    digest: str
    """As `make chart-push` leaves it for what signs."""

    @property
    def name(self) -> str:
        return f"{self.registry}/charts/gpushare-operator"

    def helm(self, *arguments: str) -> str:
        chart = (f"oci://{self.name}", f"--version={VERSION}", "--plain-http")
        return run("helm", *arguments, *chart)


def run(*command: str) -> str:
    """What it printed; AssertionError where it failed."""
    path = f"{ensure_binaries(os.environ)}:{os.environ['PATH']}"
    done = subprocess.run(
        command,
        cwd=PROJECT,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def pushed() -> Iterator[Pushed]:
    with run_registry() as registry:
        to = (f"CHARTS=oci://{registry}/charts", "HELM_FLAGS=--plain-http")
        run("make", "chart-push", *to, f"REPOSITORY={REPOSITORY}", f"DIGEST={IMAGE_DIGEST}")
        yield Pushed(registry, (PROJECT / "build/chart.digest").read_text().strip())


def test_the_digest_to_sign_is_the_registrys(pushed: Pushed) -> None:
    url = f"http://{pushed.registry}/v2/charts/gpushare-operator/manifests/{VERSION}"
    with urllib.request.urlopen(url) as answer:
        assert answer.headers["Docker-Content-Digest"] == pushed.digest


def test_what_is_installed_from_it_runs_the_releases_image_by_its_digest(pushed: Pushed) -> None:
    rendered = pushed.helm("install", "gpushare", "--dry-run=client")
    images = re.findall(r'^ +image: "?([^"\n]+)', rendered, re.MULTILINE)
    assert set(images) == {f"{REPOSITORY}@{IMAGE_DIGEST}"}


def test_it_is_the_charts_folder_but_for_the_image(pushed: Pushed, tmp_path: Path) -> None:
    pushed.helm("pull", f"--destination={tmp_path}", "--untar")
    pulled = tmp_path / "gpushare-operator"
    changed = {
        str(file.relative_to(CHART)): file
        for file in CHART.rglob("*")
        if file.is_file()
        and file.name not in ("Chart.yaml", ".helmignore")
        and (pulled / file.relative_to(CHART)).read_bytes() != file.read_bytes()
    }
    assert list(changed) == ["values.yaml"]
    before, after = ((root / "values.yaml").read_text().splitlines() for root in (CHART, pulled))
    assert {line for line in difflib.ndiff(before, after) if line.startswith("+ ")} == {
        f"+   repository: {REPOSITORY}",
        f'+   digest: "{IMAGE_DIGEST}"',
    }
