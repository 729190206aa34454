"""Versions of the operator before this one, out of what tests/upgrade keeps of them."""

import hashlib
import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Mapping
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
"""One that this version has no use for (requirements/previous.in); make fills it."""
_TAG = "previous"


def _find_file(pattern: str) -> Path:
    """Raises ValueError where its digest is not the one that was noted."""
    (file,) = _FOLDER.glob(pattern)
    noted = dict(line.split()[::-1] for line in (_FOLDER / "SHA256SUMS").read_text().splitlines())
    if (found := hashlib.sha256(file.read_bytes()).hexdigest()) != noted[file.name]:
        raise ValueError(f"{file}: its digest is {found}, expected {noted[file.name]}")
    return file


@dataclass(frozen=True)
class PreviousVersion:
    """Its program, in a folder of its own."""

    environment: Mapping[str, str]
    """What its processes need beside what those of this version do."""

    @classmethod
    def unpack(cls, folder: Path) -> "PreviousVersion":
        with zipfile.ZipFile(_find_file("*.whl")) as archive:
            archive.extractall(folder)
        return cls({"PYTHONPATH": os.pathsep.join((str(folder), str(_LIBRARIES)))})

    def apply_crd(self, bench: Bench) -> None:
        """Put its CRD in the place of the one that is there."""
        crd = subprocess.run(
            [sys.executable, "-m", "gpushare.api.crd"],
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        apply = ("apply", "--server-side", "--force-conflicts", "-f", "-")
        bench.cluster.kubectl(*apply, stdin=crd)

    def apply_rights(self, bench: Bench) -> None:
        """Give the controller the rights that its chart gave."""
        bench.cluster.kubectl("apply", "--server-side", "-f", str(_find_file("rights.yaml")))

    def start(self, bench: Bench) -> OperatorProcess:
        """Its controller, once it is ready."""
        # It does not know the setting for a ServiceAccount's folder yet.
        server = read_own_kubeconfig(bench.cluster.kubeconfig)["clusters"][0]["cluster"]["server"]
        return bench.operators.start("controller", env=self.environment, api_url=server)


@dataclass(frozen=True)
class PreviousChart:
    """A chart from before this one, and the program that its pods run, in a folder of their own."""

    folder: Path

    @classmethod
    def unpack(cls, folder: Path) -> "PreviousChart":
        with tarfile.open(_find_file("*.tar.gz")) as files:
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
