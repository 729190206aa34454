"""Checks whether a machine can hold a real node, and installs missing Debian packages."""

import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from devcluster.errors import ToolchainError
from devcluster.locks import exclusive
from devcluster.node.cgroups import observe_cgroups

PACKAGES = {
    "buildah": "buildah",
    "conntrack": "conntrack",
    "ip": "iproute2",
    "mmdebstrap": "mmdebstrap",
    "nft": "nftables",
    "nsenter": "util-linux",
    "openssl": "openssl",
    "runc": "runc",
    "sysctl": "procps",
    "/usr/lib/cni/bridge": "containernetworking-plugins",
}
"""Packages by program."""


def find_problem() -> str | None:
    """Find why this machine can hold no real node, and the remedy; None where it can."""
    if platform.system() != "Linux":
        return "a real node needs Linux: run it in a virtual machine"
    if os.geteuid() != 0:
        return "a real node needs root, for its namespaces: run the same with `sudo`"
    if "overlay" not in Path("/proc/filesystems").read_text():
        return "this kernel has no overlay filesystem: run `modprobe overlay`"
    cgroups = observe_cgroups()
    if cgroups.is_version_2:
        return (
            "this machine has cgroups of version 2 alone, under which no real node was tried yet: "
            "boot it with systemd.unified_cgroup_hierarchy=0 on the kernel's command line"
        )
    if not cgroups.hierarchies:
        return "no cgroups are mounted at /sys/fs/cgroup, as in a container: use a whole machine"
    if missing := cgroups.missing_controllers():
        return (
            f"the kubelet needs the cgroup controllers {', '.join(missing)}: enable them on the "
            "kernel's command line"
        )
    missing = find_missing_packages()
    if missing and not shutil.which("apt-get"):
        return f"these programs are missing, and this is no Debian: {', '.join(missing)}"
    return None


def find_missing_packages() -> list[str]:
    """Find the Debian packages of programs that are not on PATH."""
    return sorted({package for program, package in PACKAGES.items() if not shutil.which(program)})


def ensure_packages(report: Callable[[str], None]) -> None:
    """Install the missing packages from Debian's archive. Raises `ToolchainError`."""
    lock = Path(tempfile.gettempdir(), "gpushare-devcluster-packages.lock")
    # apt-get does not wait for another of its kind, and each test worker comes here.
    with exclusive(lock, on_wait=lambda: report("packages are being installed; waiting")):
        if missing := find_missing_packages():
            report(f"installing Debian's {', '.join(missing)}")
            _run_apt(["update"])
            _run_apt(["install", "--yes", "--no-install-recommends", *missing])


def _run_apt(arguments: Sequence[str]) -> None:
    command = ["apt-get", "--quiet=2", *arguments]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ToolchainError(
            f"`{' '.join(command)}` failed: {(done.stderr or done.stdout).strip()[-1000:]}\n"
            "Check the network, or install these packages yourself."
        )
