"""Images built without a container engine, by buildah: the operator's, and those of a real node.

The Dockerfile's base image comes from a registry; where that can't be reached, a base of Debian's
packages stands in for it. It has the same Python and no other content that the program uses.
"""

import hashlib
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from devcluster.errors import ToolchainError

PROJECT = Path(__file__).resolve().parent.parent
_SUITE = "bookworm"
_PACKAGES = ("ca-certificates", "python3-minimal", "python3-venv")
_PIP_CONFIGURATIONS = ("/etc/pip.conf", "~/.config/pip/pip.conf", "~/.pip/pip.conf")
_CERTIFICATES = "/etc/ssl/certs"

Report = Callable[[str], None]


def build_operator_image(tag: str, *, source: Path = PROJECT, report: Report) -> None:
    """Build the Dockerfile of `source` as `tag`, on a base of Debian's packages; say its size."""
    base = _ensure_base(report)
    _buildah(
        *("build", "--layers", "--isolation=chroot", f"--from={base}", f"--tag={tag}"),
        # Ours alone: what a registry asks for to be reached is the machine's, and never copied in.
        *(f"--volume={place}:{target}:ro" for place, target in _find_mounts()),
        str(source),
    )
    report(f"image {tag}: {_read_size(tag)}; its base of Debian packages: {_read_size(base)}")


def build_program_image(tag: str, program: Path) -> None:
    """Build an image that holds nothing but a static program, where a command finds it by name."""
    name = program.name
    with tempfile.TemporaryDirectory() as folder:
        recipe = Path(folder, "Dockerfile")
        recipe.write_text(f'FROM scratch\nCOPY {name} /bin/\nENTRYPOINT ["/bin/{name}"]\n')
        _buildah("build", f"--tag={tag}", f"--file={recipe}", str(program.parent))


def save_image(tag: str, archive: Path) -> Path:
    """Write an image with its name into `archive`, in Docker's format."""
    archive.unlink(missing_ok=True)
    _buildah("push", "--quiet", tag, f"docker-archive:{archive}:{tag}")
    return archive


def _ensure_base(report: Report) -> str:
    recipe = " ".join((_SUITE, *_PACKAGES))
    base = f"localhost/gpushare-base:{hashlib.sha256(recipe.encode()).hexdigest()[:12]}"
    if _has_image(base):
        return base
    report("no container engine: Debian's packages stand in for the Dockerfile's base image")
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


def _read_size(image: str) -> str:
    return _buildah("images", "--format={{.Size}}", image).strip()


def _has_image(name: str) -> bool:
    command = ["buildah", "inspect", "--type=image", name]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _find_mounts() -> Iterator[tuple[str, str]]:
    if Path(_CERTIFICATES).is_dir():
        yield _CERTIFICATES, _CERTIFICATES
    found = (Path(name).expanduser() for name in _PIP_CONFIGURATIONS)
    for configuration in [path for path in found if path.is_file()][:1]:
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
