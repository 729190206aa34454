"""Creates the cgroups of a node: one folder in each hierarchy of the machine (version 1)."""

import contextlib
from dataclasses import dataclass
from pathlib import Path

from devcluster.waiting import wait_until

_ROOT = Path("/sys/fs/cgroup")
_CONTROLLERS = ("cpuset", "cpu", "memory", "pids")
"""Controllers that the kubelet needs."""
_COPIED = ("cpuset.cpus", "cpuset.mems")
_EMPTY_SECONDS = 30


@dataclass(frozen=True)
class Cgroups:
    """The hierarchies mounted below `root`, each of one controller or a few."""

    root: Path
    hierarchies: tuple[Path, ...]

    @property
    def is_version_2(self) -> bool:
        """Tell whether the machine has only cgroups of version 2."""
        return (self.root / "cgroup.controllers").exists()

    def missing_controllers(self) -> list[str]:
        """Find the controllers that the kubelet needs and this machine lacks."""
        # Two may share a hierarchy: `cpu,cpuacct`.
        known = [name for path in self.hierarchies for name in path.name.split(",")]
        return [name for name in _CONTROLLERS if name not in known]

    def create(self, *names: str) -> None:
        """Create the cgroup `/A/B` of names A, B in every hierarchy."""
        for hierarchy in self.hierarchies:
            cgroup = hierarchy
            for name in names:
                cgroup /= name
                cgroup.mkdir(exist_ok=True)
                for copied in _COPIED:
                    if (cgroup / copied).exists():
                        # A new one is empty, and takes no process before it is not.
                        (cgroup / copied).write_text((cgroup.parent / copied).read_text())

    def remove(self, name: str) -> None:
        """Remove a cgroup with all below it, once the processes in it have ended."""

        def is_removed() -> bool:
            # On a hybrid machine runc makes one in the hierarchy of version 2, too.
            remaining = [path for path in self.root.glob(f"*/{name}") if path.is_dir()]
            for cgroup in remaining:
                # Deepest first; one whose process is still ending is busy.
                for folder in sorted(cgroup.rglob("*/"), key=lambda path: -len(path.parts)):
                    with contextlib.suppress(OSError):
                        folder.rmdir()
                with contextlib.suppress(OSError):
                    cgroup.rmdir()
            return not remaining

        wait_until(
            is_removed,
            expectation=f"the cgroups of {name} are removed",
            timeout_seconds=_EMPTY_SECONDS,
        )


def observe_cgroups(root: Path = _ROOT) -> Cgroups:
    """Find the machine's hierarchies of version 1."""
    mounted = (path for path in root.glob("*") if path.is_dir() and not path.is_symlink())
    return Cgroups(root, tuple(sorted(path for path in mounted if (path / "tasks").exists())))
