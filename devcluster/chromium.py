"""Finds a headless Chromium for the tests of the page and its pictures.

Uses the machine's browser, or else Debian's package `chromium-headless-shell`, unpacked into the
user's cache: nothing is installed, and root is not needed.
"""

import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from devcluster.errors import ToolchainError
from devcluster.locks import exclusive
from devcluster.toolchain import find_cache

VARIABLE = "CHROMIUM"
"""Environment variable with the path of the browser."""
PROGRAMS = (
    "chromium-headless-shell",
    "chromium",
    "google-chrome",
    "google-chrome-stable",
    "chromium-browser",
)
"""Program names; Ubuntu's chromium-browser is last, since it needs snap."""
PACKAGE = "chromium-headless-shell"
_PROGRAM = Path("usr/lib/chromium/chromium-headless-shell")
_MINUTES = 10


@dataclass(frozen=True)
class Chromium:
    """A browser with its libraries."""

    program: Path
    libraries: tuple[Path, ...] = ()

    def build_environment(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Add the path of the libraries to `environment`."""
        if not self.libraries:
            return dict(environment)
        known = filter(None, [environment.get("LD_LIBRARY_PATH")])
        return {**environment, "LD_LIBRARY_PATH": ":".join([*map(str, self.libraries), *known])}


def find_chromium(environment: Mapping[str, str]) -> Chromium | None:
    """Find the browser that `CHROMIUM` names, the machine's own, or the unpacked one; else None."""
    if named := environment.get(VARIABLE):
        return Chromium(Path(named))
    for name in PROGRAMS:
        if found := shutil.which(name, path=environment.get("PATH", "")):
            return Chromium(Path(found))
    folder = _find_folder(environment)
    return _describe(folder) if os.access(folder / _PROGRAM, os.X_OK) else None


def ensure_chromium(
    environment: Mapping[str, str], *, report: Callable[[str], None] = print
) -> Chromium:
    """Find a browser, or unpack Debian's package. Raises `ToolchainError`."""
    if found := find_chromium(environment):
        return found
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        raise ToolchainError(
            "no Chromium: none is on PATH, and this is no Debian to get it from. Install Chromium "
            f"or Chrome, or name one by {VARIABLE}=/path/to/it."
        )
    folder = _find_folder(environment)
    folder.parent.mkdir(parents=True, exist_ok=True)
    waiting = "another process is getting Chromium; waiting for it"
    with exclusive(folder.parent / "chromium.lock", on_wait=lambda: report(waiting)):
        if not os.access(folder / _PROGRAM, os.X_OK):
            report(f"getting {PACKAGE} from Debian's archive into {folder}; once, 100 MB")
            _unpack_into(folder)
    return _describe(folder)


def _find_folder(environment: Mapping[str, str]) -> Path:
    return find_cache(environment) / "chromium"


def _describe(folder: Path) -> Chromium:
    libraries = folder / "usr/lib" / f"{platform.machine()}-linux-gnu"
    return Chromium(folder / _PROGRAM, (libraries, libraries / "pulseaudio"))


def _unpack_into(folder: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="getting-", dir=folder.parent) as temporary:
        work = Path(temporary)
        for part in ("lists/partial", "archives/partial", "root"):
            (work / part).mkdir(parents=True)
        _run("apt-get", *_own_folders(work), "--quiet=2", "update")
        _run(
            "apt-get", *_own_folders(work), "--quiet=2", "--yes", "--no-install-recommends",
            "--download-only", "install", PACKAGE,
        )  # fmt: skip
        for package in sorted((work / "archives").glob("*.deb")):
            _run("dpkg-deb", "--extract", str(package), str(work / "root"))
        if not os.access(work / "root" / _PROGRAM, os.X_OK):
            raise ToolchainError(f"Debian's {PACKAGE} has no {_PROGRAM}: set {VARIABLE}.")
        shutil.rmtree(folder, ignore_errors=True)
        (work / "root").rename(folder)


def _own_folders(work: Path) -> Iterator[str]:
    """Yield options of apt-get for folders of our own, since only root may change the system's."""
    for key, value in {
        "Dir::State::lists": work / "lists",
        "Dir::Cache": work,
        "Dir::Cache::archives": work / "archives",
        "Dir::State::status": "/var/lib/dpkg/status",
        "APT::Sandbox::User": "",
        "Debug::NoLocking": "true",
    }.items():
        yield from ("-o", f"{key}={value}")


def _run(*command: str) -> None:
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=_MINUTES * 60, check=False
    )
    if done.returncode != 0:
        raise ToolchainError(
            f"{command[0]} failed: {(done.stderr or done.stdout).strip()[-1000:]}\nCheck the "
            f"network, or install Chromium yourself, or name one by {VARIABLE}=/path/to/it."
        )
