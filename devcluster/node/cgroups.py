"""The cgroups of a node: one folder in each hierarchy of the machine, for version 1 and 2."""

import contextlib
from dataclasses import dataclass
from pathlib import Path

from devcluster.waiting import wait_until

_ROOT = Path("/sys/fs/cgroup")
_CONTROLLERS_FILE = "cgroup.controllers"
_CONTROLLERS = ("cpuset", "cpu", "memory", "pids")
"""Without one of these the kubelet does not start."""
_COPIED = ("cpuset.cpus", "cpuset.mems")
_EMPTY_SECONDS = 30


@dataclass(frozen=True)
class CgroupVersion:
    """How this machine has its cgroups mounted: `hierarchies` has one folder in version 2."""

    number: int
    root: Path
    hierarchies: tuple[Path, ...]

    def missing_controllers(self) -> list[str]:
        """Those that the kubelet needs and this machine does not have."""
        if self.number == 2:
            known = (self.hierarchies[0] / _CONTROLLERS_FILE).read_text().split()
        else:
            # Two may share a hierarchy: `cpu,cpuacct`.
            known = [name for path in self.hierarchies for name in path.name.split(",")]
        return [name for name in _CONTROLLERS if name not in known]

    def create(self, *names: str) -> None:
        """Make the cgroup `/A/B` of names A, B in every hierarchy, able to have others below it."""
        for hierarchy in self.hierarchies:
            cgroup = hierarchy
            for name in names:
                if self.number == 2:
                    self._delegate(cgroup)
                cgroup /= name
                cgroup.mkdir(exist_ok=True)
                for copied in _COPIED if self.number == 1 else ():
                    if (cgroup / copied).exists():
                        # A new one is empty, and takes no process before it is not.
                        (cgroup / copied).write_text((cgroup.parent / copied).read_text())
            if self.number == 2:
                self._delegate(cgroup)

    def remove(self, name: str) -> None:
        """Remove it with all below it, once the processes in it have ended."""

        def is_removed() -> bool:
            # On a hybrid machine runc makes one in the hierarchy of version 2, too.
            folders = (self.root / name, *self.root.glob(f"*/{name}"))
            left = [path for path in folders if path.is_dir() and not path.is_symlink()]
            for cgroup in left:
                # Deepest first; one whose process is still ending is busy.
                for folder in sorted(cgroup.rglob("*/"), key=lambda path: -len(path.parts)):
                    with contextlib.suppress(OSError):
                        folder.rmdir()
                with contextlib.suppress(OSError):
                    cgroup.rmdir()
            return not left

        wait_until(
            is_removed,
            expectation=f"the cgroups of {name} are removed",
            timeout_seconds=_EMPTY_SECONDS,
        )

    def _delegate(self, cgroup: Path) -> None:
        wanted = " ".join(f"+{name}" for name in _CONTROLLERS)
        (cgroup / "cgroup.subtree_control").write_text(wanted)


def observe_cgroups(root: Path = _ROOT) -> CgroupVersion:
    """What is mounted below `root`: one hierarchy in version 2, one a controller in version 1."""
    if (root / _CONTROLLERS_FILE).exists():
        return CgroupVersion(2, root, (root,))
    with_processes = (path for path in root.glob("*") if path.is_dir() and not path.is_symlink())
    return CgroupVersion(
        1, root, tuple(sorted(p for p in with_processes if (p / "tasks").exists()))
    )
