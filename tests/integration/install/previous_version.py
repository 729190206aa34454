"""The version of the operator before this one, out of what tests/upgrade keeps of it."""

import hashlib
import tarfile
from dataclasses import dataclass
from pathlib import Path

from devcluster.installation import OperatorProcess
from devcluster.processnode.host import load_image
from devcluster.release import Release
from devcluster.startup import PROJECT
from tests.kit.bench import Bench

_FOLDER = PROJECT / "tests/upgrade"
_TAG = "previous"


@dataclass(frozen=True)
class PreviousVersion:
    """Its chart and its program, in a folder of their own."""

    folder: Path

    @classmethod
    def unpack(cls, folder: Path) -> "PreviousVersion":
        """Raises ValueError where the archive's digest is not the one that was noted."""
        noted, name = (_FOLDER / "SHA256SUMS").read_text().split()
        if (found := hashlib.sha256((_FOLDER / name).read_bytes()).hexdigest()) != noted:
            raise ValueError(f"{name}: its digest is {found}, expected {noted}")
        with tarfile.open(_FOLDER / name) as files:
            files.extractall(folder, filter="data")
        return cls(folder)

    @property
    def source(self) -> Path:
        """Where the program is."""
        return self.folder / "operator"

    @property
    def _chart(self) -> Path:
        return self.folder / "chart"

    def release(self, bench: Bench) -> Release:
        """The release by its values, on a cluster whose nodes have its image."""
        load_image(bench.cluster, _TAG, str(self.source))
        return Release(bench.cluster, {"image": {"tag": _TAG}}, chart=self._chart)

    def apply_crd(self, bench: Bench) -> None:
        """Put its CRD in the place of the one that is there."""
        crd = self._chart / "files/gpusharepools.yaml"
        bench.cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(crd))

    def apply_rights(self, bench: Bench) -> None:
        """Give the controller the rights that its chart gave."""
        chart = ("template", "gpushare", str(self._chart), "--namespace=gpushare-system")
        rights = ("--set=deploy=false", "--show-only=templates/rbac-controller.yaml")
        bench.cluster.kubectl(
            "apply", "--server-side", "-f", "-", stdin=bench.cluster.helm(*chart, *rights)
        )

    def start(self, bench: Bench) -> OperatorProcess:
        """Its controller, once it is ready."""
        return bench.operators.start("controller", env={"PYTHONPATH": str(self.source)})
