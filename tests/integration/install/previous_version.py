"""Versions of the operator before this one, out of what tests/upgrade keeps of them."""

import hashlib
import os
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from devcluster.installation import OperatorProcess
from devcluster.kubeconfig import read_own_kubeconfig
from devcluster.processnode.host import load_image
from devcluster.release import Release
from devcluster.startup import PROJECT
from tests.kit.bench import Bench

_FOLDER = PROJECT / "tests/upgrade"
_LIBRARIES = Path(sys.prefix) / "previous"
"""Filled by make test-integration and make test-faults."""
_TAG = "previous"


@dataclass(frozen=True)
class PreviousVersion:
    """Its program, in a folder of its own; the libraries are those of this version, and one that
    this version has no use for (requirements/previous.in)."""

    source: Path

    @property
    def environment(self) -> dict[str, str]:
        """What its processes need beside what those of this version do."""
        return {"PYTHONPATH": os.pathsep.join((str(self.source), str(_LIBRARIES)))}

    @classmethod
    def unpack(cls, folder: Path) -> "PreviousVersion":
        """Raises ValueError where a file is not the one whose digest was noted."""
        _expect_digests()
        (wheel,) = _FOLDER.glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
        return cls(folder)

    def apply_crd(self, bench: Bench) -> None:
        """Put its CRD in the place of the one that is there."""
        done = subprocess.run(
            [sys.executable, "-m", "gpushare.api.crd"],
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            check=True,
        )
        apply = ("apply", "--server-side", "--force-conflicts", "-f", "-")
        bench.cluster.kubectl(*apply, stdin=done.stdout)

    def apply_rights(self, bench: Bench) -> None:
        """Give the controller the rights that its chart gave."""
        bench.cluster.kubectl("apply", "--server-side", "-f", str(_FOLDER / "rights.yaml"))

    def start(self, bench: Bench) -> OperatorProcess:
        """Its controller, once it is ready."""
        admin = read_own_kubeconfig(bench.cluster.kubeconfig)
        return bench.operators.start(
            "controller",
            env=self.environment,
            # It does not know the setting for a ServiceAccount's folder yet.
            api_url=admin["clusters"][0]["cluster"]["server"],
        )


@dataclass(frozen=True)
class PreviousChart:
    """A chart from before this one, and the program that its pods run, in a folder of their own."""

    folder: Path

    @classmethod
    def unpack(cls, folder: Path) -> "PreviousChart":
        """Raises ValueError where a file is not the one whose digest was noted."""
        _expect_digests()
        (archive,) = _FOLDER.glob("*.tar.gz")
        with tarfile.open(archive) as files:
            files.extractall(folder, filter="data")
        return cls(folder)

    @property
    def source(self) -> Path:
        """Where the program is."""
        return self.folder / "operator"

    def release(self, bench: Bench) -> Release:
        """The release by its values, on a cluster whose nodes have its image."""
        load_image(bench.cluster, _TAG, str(self.source))
        return Release(bench.cluster, {"image": {"tag": _TAG}}, chart=self.folder / "chart")


def _expect_digests() -> None:
    for line in (_FOLDER / "SHA256SUMS").read_text().splitlines():
        digest, name = line.split()
        if (found := hashlib.sha256((_FOLDER / name).read_bytes()).hexdigest()) != digest:
            raise ValueError(f"{name}: its digest is {found}, expected {digest}; make it anew")
