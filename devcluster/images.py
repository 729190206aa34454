"""Images built without a container engine, by buildah: the operator's, and those of a real node.

Where the Dockerfile's base image can't be pulled, a base of Debian's packages stands in for it: the
same Python, and nothing else that the program uses.
"""

import hashlib
import os
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from devcluster.errors import ToolchainError

PROJECT = Path(__file__).resolve().parent.parent
ADDED_MB_LIMIT = 100
"""Limit of the size that the build adds to its base. The program and its requirements are 70 MB:
another library like the Kubernetes client fits, a compiler or pip's cache does not."""
TOTAL_MB_LIMIT = 350
"""Limit of the whole image, with the larger base of Debian's packages (225 MB)."""
# Of the Dockerfile's arguments those that are in nothing but a label.
_LABELS = {
    name: f"org.opencontainers.image.{name.lower()}" for name in ("VERSION", "REVISION", "SOURCE")
}
_SUITE = "bookworm"
_PACKAGES = ("ca-certificates", "python3-minimal", "python3-venv")
_PIP_CONFIGURATIONS = ("/etc/pip.conf", "~/.config/pip/pip.conf", "~/.pip/pip.conf")
_CERTIFICATES = "/etc/ssl/certs"
_PULL_SECONDS = 120

Report = Callable[[str], None]


def build_operator_image(
    tag: str,
    *,
    source: Path = PROJECT,
    build_args: Mapping[str, str] = MappingProxyType({}),
    report: Report,
) -> None:
    """Build the Dockerfile of the checkout `source` as `tag`, and say how large it is.

    Raises `ToolchainError` where this machine can't, the build fails or the image is too large.
    """
    _expect_buildah()
    dockerfile = (source / "Dockerfile").read_text()
    base = _pull_base(read_base(dockerfile, build_args), report) or _ensure_debian_base(report)
    report(f"building {tag} by buildah")
    _buildah(
        *("build", "--layers", "--isolation=chroot", f"--from={base}", f"--tag={tag}"),
        *(f"--build-arg={name}={build_args[name]}" for name in build_args if name not in _LABELS),
        # What a registry asks for to be reached is the machine's: lent to the build, never copied.
        *(f"--volume={place}:{target}:ro" for place, target in _find_mounts()),
        str(source),
    )
    _label(tag, build_args)
    total_mb, base_mb = _read_mb(tag), _read_mb(base)
    report(f"{tag}: {total_mb:.0f} MB unpacked, {total_mb - base_mb:.0f} MB on top of its base")
    expect_size(total_mb, base_mb)


def expect_size(total_mb: float, base_mb: float) -> None:
    """Raise `ToolchainError` for an image above the limits."""
    if total_mb - base_mb > ADDED_MB_LIMIT or total_mb > TOTAL_MB_LIMIT:
        raise ToolchainError(
            f"the image is too large: it may have {ADDED_MB_LIMIT} MB on top of its base, and "
            f"{TOTAL_MB_LIMIT} MB in all. See what came in, or raise the limits."
        )


def build_program_image(tag: str, program: Path) -> None:
    """Build an image of one static program, in a folder on PATH."""
    name = program.name
    with tempfile.TemporaryDirectory() as folder:
        recipe = Path(folder, "Dockerfile")
        recipe.write_text(f'FROM scratch\nCOPY {name} /bin/\nENTRYPOINT ["/bin/{name}"]\n')
        _buildah("build", f"--tag={tag}", f"--file={recipe}", str(program.parent))


def build_root_image(tag: str, root: Path) -> None:
    """Build an image of the files in the folder `root`."""
    with tempfile.TemporaryDirectory() as folder:
        recipe = Path(folder, "Dockerfile")
        recipe.write_text("FROM scratch\nCOPY . /\n")
        _buildah("build", f"--tag={tag}", f"--file={recipe}", str(root))


def save_image(tag: str, archive: Path) -> Path:
    """Write an image with its name into `archive`, in Docker's format."""
    archive.unlink(missing_ok=True)
    _buildah("push", "--quiet", tag, f"docker-archive:{archive}:{tag}")
    return archive


def read_base(dockerfile: str, build_args: Mapping[str, str] = MappingProxyType({})) -> str:
    """Read the image of the first stage, with its registry; by digest, without its tag."""
    match = re.search(
        r"^ARG BASE_REGISTRY=(\S+)$[^$]*^FROM \$BASE_REGISTRY/(\w+)(?::\S+)?(@sha256:\w+)",
        dockerfile,
        re.MULTILINE,
    )
    if match is None:
        raise ToolchainError("the Dockerfile names no image of BASE_REGISTRY by its digest")
    registry, name, digest = match.groups()
    return f"{build_args.get('BASE_REGISTRY', registry)}/{name}{digest}"


def _expect_buildah() -> None:
    if platform.system() != "Linux" or os.geteuid() != 0:
        raise ToolchainError(
            "no container engine answers (docker, podman, nerdctl): start one. Without one, "
            "root on Linux can build the image by buildah."
        )
    _expect_program("buildah", "no container engine answers (docker, podman, nerdctl)")


def _expect_program(name: str, reason: str) -> None:
    if not shutil.which(name):
        raise ToolchainError(
            f"{reason}, and {name} is missing: "
            f"run `apt-get install --no-install-recommends {name}`."
        )


def _pull_base(base: str, report: Report) -> str | None:
    command = ["buildah", "pull", "--quiet", base]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_PULL_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        cause = f"no answer in {_PULL_SECONDS} s"
    else:
        if done.returncode == 0:
            return base
        cause = done.stderr.strip().rpartition("\n")[2][-300:]
    report(f"the Dockerfile's base image can't be pulled: {cause}")
    return None


def _ensure_debian_base(report: Report) -> str:
    recipe = " ".join((_SUITE, *_PACKAGES))
    base = f"localhost/gpushare-base:{hashlib.sha256(recipe.encode()).hexdigest()[:12]}"
    report(f"a base of Debian {_SUITE}'s packages stands in for it: {base}")
    if _has_image(base):
        return base
    _expect_program("mmdebstrap", "the base image can't be pulled")
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder, "base.tar")
        _run(
            "mmdebstrap", "--quiet", "--variant=minbase", f"--include={','.join(_PACKAGES)}",
            _SUITE, str(archive),
        )  # fmt: skip
        container = _buildah("from", "scratch").strip()
        try:
            _buildah("add", "--quiet", container, str(archive), "/")
            _buildah("commit", "--quiet", container, base)
        finally:
            _buildah("rm", container)
    return base


def _label(tag: str, build_args: Mapping[str, str]) -> None:
    # Apart: buildah 1.28 takes a LABEL from its cache whatever the arguments in it are.
    labels = [
        f"--label={_LABELS[name]}={build_args[name]}" for name in build_args if name in _LABELS
    ]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "Dockerfile").write_text(f"FROM {tag}\n")
        _buildah("build", "--layers", "--pull-never", f"--tag={tag}", *labels, folder)


def _read_mb(image: str) -> float:
    # One line for each of its names.
    size, unit = _buildah("images", "--format={{.Size}}", image).splitlines()[0].split()
    return float(size) * {"B": 1e-6, "KB": 1e-3, "MB": 1, "GB": 1e3}[unit.upper()]


def _has_image(name: str) -> bool:
    command = ["buildah", "inspect", "--type=image", name]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _find_mounts() -> Iterator[tuple[str, str]]:
    if Path(_CERTIFICATES).is_dir():
        yield _CERTIFICATES, _CERTIFICATES
    candidates = (Path(name).expanduser() for name in _PIP_CONFIGURATIONS)
    for configuration in [path for path in candidates if path.is_file()][:1]:
        yield str(configuration), "/etc/pip.conf"


def _buildah(*arguments: str) -> str:
    return _run("buildah", *arguments)


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ToolchainError(
            f"`{' '.join(command[:2])}` failed: {(done.stderr or done.stdout).strip()[-2000:]}"
        )
    return done.stdout
