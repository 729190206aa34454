"""Builds control planes of other Kubernetes versions than the one that ``go.mod`` pins.

The Go module of each is made from upstream's own ``go.mod`` and ``go.sum``. Hashes of the staging
modules, which these lack, come from Go's checksum database.
"""

import json
import re
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from devcluster.errors import ToolchainError
from devcluster.locks import exclusive
from devcluster.toolchain import (
    CONTROL_PLANE,
    GoModule,
    ensure_binaries,
    find_cache,
    install_go,
    observe_toolchain,
)

_KUBERNETES = "k8s.io/kubernetes"
_PACKAGES = tuple(
    f"{_KUBERNETES}/cmd/kube-{name}" for name in ("apiserver", "controller-manager", "scheduler")
)


def ensure_version(
    version: str, environment: Mapping[str, str], *, report: Callable[[str], None] = print
) -> Path:
    """Build the control plane of Kubernetes ``version``; return a folder for ``DEVCLUSTER_BIN``.

    ``1.34`` means its newest patch release. etcd, kubectl, Helm and KWOK are the usual ones.
    Raises :class:`ToolchainError`.
    """
    usual = ensure_binaries(environment, report=report)
    # The user's own kube-apiserver is of another version.
    rest = {key: value for key, value in environment.items() if key != "DEVCLUSTER_BIN"}
    module = _make_module(version, rest, report)
    built = ensure_binaries(rest, module, report=report)
    programs = {**_programs(usual, CONTROL_PLANE), **_programs(built, module)}

    def link(folder: Path) -> None:
        for name, program in programs.items():
            (folder / name).symlink_to(program)

    folder = module.folder.with_name(f"{module.folder.name}-{built.name}-{usual.name}")
    _fill(folder, link, report)
    return folder


def adapt_go_mod(upstream: str, version: str) -> str:
    """Adapt upstream's ``go.mod`` of ``version`` for a module that builds it.

    Go's own version and the ``godebug`` lines stay. Staging modules are the published ones:
    v0.30.14 belongs to Kubernetes v1.30.14.
    """
    published = rf"\1 => \1 {version.replace('v1.', 'v0.', 1)}"
    text = re.sub(r"(k8s\.io/\S+) => \./staging/src/\S+", published, upstream)
    text = re.sub(r"^module .*$", "module devcluster/kubernetes", text, flags=re.MULTILINE)
    return f"{text}\nrequire (\n\t{_KUBERNETES} {version}\n)\n"


def _make_module(
    version: str, environment: Mapping[str, str], report: Callable[[str], None]
) -> GoModule:
    go = str(observe_toolchain(environment).go or install_go(report))
    settings = {**environment, "GOTOOLCHAIN": "local", "GOWORK": "off"}
    download = [go, "mod", "download", "-json", f"{_KUBERNETES}@v{version.removeprefix('v')}"]
    upstream = json.loads(_run(download, Path("/"), settings))
    resolved, source = upstream["Version"], Path(upstream["Dir"])

    def make(folder: Path) -> None:
        (folder / "go.mod").write_text(adapt_go_mod((source / "go.mod").read_text(), resolved))
        (folder / "go.sum").write_bytes((source / "go.sum").read_bytes())
        report(f"getting the modules of Kubernetes {resolved}")
        _run([go, "list", "-mod=mod", "-deps", *_PACKAGES], folder, settings)

    folder = find_cache(environment) / f"kubernetes-{resolved}"
    _fill(folder, make, report)
    return GoModule(folder, f"Kubernetes {resolved}", _PACKAGES, "about 7 minutes")


def _fill(folder: Path, fill: Callable[[Path], None], report: Callable[[str], None]) -> None:
    """Fill ``folder`` unless it exists; it appears whole or not at all."""
    if folder.exists():
        return
    waiting = f"another build of {folder.name} is under way; waiting for it"
    with (
        exclusive(folder.with_name(f"{folder.name}.lock"), on_wait=lambda: report(waiting)),
        tempfile.TemporaryDirectory(
            prefix=f"building-{folder.name}-", dir=folder.parent
        ) as temporary,
    ):
        filled = Path(temporary, "filled")
        filled.mkdir()
        fill(filled)
        if not folder.exists():
            filled.rename(folder)


def _run(command: list[str], folder: Path, environment: Mapping[str, str]) -> str:
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        output = (done.stderr.strip() or done.stdout.strip()).splitlines()[-5:]
        raise ToolchainError(f"`{' '.join(command[:3])}` failed:\n  " + "\n  ".join(output))
    return done.stdout


def _programs(folder: Path, module: GoModule) -> dict[str, Path]:
    return {name: folder / name for name in module.binaries}
