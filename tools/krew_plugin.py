"""`python -m tools.krew_plugin` builds what Krew installs of the kubectl plugin.

That is an archive for each platform, the pinned requirements in it, and the manifest that names
them.
"""

import argparse
import gzip
import hashlib
import io
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path
from string import Template

from devcluster.startup import PROJECT

MACHINES = {"linux_amd64": "x86_64", "linux_arm64": "aarch64"}
"""Machine in the names of wheels, by platform."""
PYTHON = "3.11"
"""Python version of the Dockerfile, for which the wheels are made."""
_GLIBC = ("2_17", "2_28", "2_34")
_EXECUTABLE = 0o755
_LAUNCHER = f"""\
#!/usr/bin/env python{PYTHON}
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "lib"))
from gpushare.cli.entrypoint import kubectl_gpushare

kubectl_gpushare()
"""


def build_archive(platform: str) -> bytes:
    """Build the archive for `platform`; equal sources give equal bytes."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        _install(platform, root / "lib")
        without = shutil.ignore_patterns("__pycache__")
        shutil.copytree(PROJECT / "operator/gpushare", root / "lib/gpushare", ignore=without)
        shutil.copy(PROJECT / "LICENSE", root)
        (root / "kubectl-gpushare").write_text(_LAUNCHER)
        (root / "kubectl-gpushare").chmod(_EXECUTABLE)
        return _pack(root)


def render_manifest(source: str, digests: Mapping[str, str]) -> str:
    """Build Krew's manifest of the plugin with releases at `source`, from digests by platform."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    values = {f"sha256_{platform}": digest for platform, digest in digests.items()}
    text = (PROJECT / ".krew.yaml").read_text()
    # The first lines speak to whoever reads the template.
    body = re.sub(r"\A(#.*\n)+", "", text)
    return Template(body).substitute(values, version=project["version"], source=source)


def _install(platform: str, folder: Path) -> None:
    machine = MACHINES[platform]
    tags = [f"--platform=manylinux_{version}_{machine}" for version in _GLIBC]
    tags += [f"--platform=manylinux2014_{machine}"]
    command = [
        sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
        "--no-compile", "--no-deps", "--require-hashes", "--only-binary=:all:",
        f"--python-version={PYTHON}", "--implementation=cp", *tags,
        f"--target={folder}", f"--requirement={PROJECT / 'requirements/plugin.txt'}",
    ]  # fmt: skip
    subprocess.run(command, check=True)


def _pack(root: Path) -> bytes:
    packed = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w") as archive,
    ):
        for path in sorted(root.rglob("*")):
            if path.is_file():
                archive.add(path, str(path.relative_to(root)), filter=_anonymize)
    return packed.getvalue()


def _anonymize(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = "root"
    entry.mtime = 0
    entry.mode = _EXECUTABLE if entry.mode & 0o100 else 0o644
    return entry


def main() -> None:
    """Build archives and manifest into the folder that is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", required=True, help="URL of the repository with the releases")
    parser.add_argument("--folder", type=Path, default=Path("build/plugin"))
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    digests = {}
    for platform in MACHINES:
        archive = build_archive(platform)
        (options.folder / f"kubectl-gpushare_{platform}.tar.gz").write_bytes(archive)
        digests[platform] = hashlib.sha256(archive).hexdigest()
    (options.folder / "gpushare.yaml").write_text(render_manifest(options.source, digests))


if __name__ == "__main__":
    main()
