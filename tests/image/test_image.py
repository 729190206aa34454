"""The image, as far as it can be had without a container engine: the Dockerfile's steps carried out
in a clean folder, and every entry point started from there without the checkout."""

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution, distributions
from pathlib import Path

import pytest

from devcluster.images import ADDED_MB_LIMIT
from tests.image.dockerfile import Replay, parse_dockerfile
from tests.kit.cluster.kubeconfigs import write_kubeconfig
from tests.unit.controller.empty_api import EmptyCluster, served_to_pods

PROJECT = Path(__file__).parents[2]
PACKAGE = PROJECT / "operator/gpushare"
SCRIPTS = sorted(tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["scripts"])
ROLES = ("controller", "run", "webhook")
NO_CAPABILITIES = ("setpriv", "--inh-caps=-all", "--bounding-set=-all")
"""Root without capabilities is held by the permissions of files like any other user."""


@dataclass(frozen=True)
class Image:
    """The program's folder, how it is started, and with which environment."""

    folder: Path
    entrypoint: tuple[str, ...]
    environment: dict[str, str]

    def run(self, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        held = NO_CAPABILITIES if os.geteuid() == 0 else ()
        return subprocess.run(
            [*held, *command],
            cwd="/",
            env=self.environment | environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def start(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """What `docker run IMAGE ARGUMENTS` starts."""
        return self.run(*self.entrypoint, *arguments, **environment)

    def python(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """The program's interpreter, cut off from everything but its own folder."""
        return self.run("python", "-I", *arguments)

    def files(self) -> dict[str, tuple[int, int]]:
        found = (path for path in self.folder.rglob("*") if path.is_file())
        return {
            str(path.relative_to(self.folder)): (path.stat().st_size, path.stat().st_mtime_ns)
            for path in found
        }

    def distributions(self) -> dict[str, Distribution]:
        (site_packages,) = self.folder.glob("lib/python*/site-packages")
        found = distributions(path=[str(site_packages)])
        return {normalize(entry.metadata["Name"]): entry for entry in found}


def normalize(name: str) -> str:
    """A distribution's name as indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.fixture(scope="session")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    """The image's program, read-only. Whatever was started must have left it as it was."""
    root = tmp_path_factory.mktemp("image") / "root"
    root.mkdir()
    *_, build, final = parse_dockerfile((PROJECT / "Dockerfile").read_text())
    replay = Replay(PROJECT, root)
    replay.build(build)
    folder = replay.keep(final)
    system = {"HOME": "/nonexistent", "LANG": "C.UTF-8", "PATH": "/usr/bin:/bin"}
    for line in final.all("ENV"):
        system |= replay.read_environment(line, system)
    image = Image(folder, tuple(json.loads(final.all("ENTRYPOINT")[-1])), system)
    subprocess.run(["chmod", "-R", "a-w", folder], check=True)
    before = image.files()
    yield image
    assert image.files() == before, "a process wrote where the root filesystem is read-only"
    subprocess.run(["chmod", "-R", "u+w", folder], check=True)
    shutil.rmtree(root)


def test_the_image_holds_the_pinned_requirements_and_the_program_alone(image: Image) -> None:
    pinned = dict(
        re.findall(r"^(\S+)==(\S+)", (PROJECT / "requirements/runtime.txt").read_text(), re.M)
    )
    found = {name: entry.version for name, entry in image.distributions().items()}
    version = found.pop("gpushare-operator")
    assert found == {normalize(name): version for name, version in pinned.items()}
    assert f'"{version}"' in (PACKAGE / "__init__.py").read_text()


def test_the_wheel_holds_the_program_and_nothing_else(image: Image) -> None:
    entry = image.distributions()["gpushare-operator"]
    held = {str(file) for file in entry.files or () if file.suffix != ".pyc"}
    source = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "operator", "templates"],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    expected = {
        path.removeprefix("operator/") if path.startswith("operator/") else f"gpushare/{path}"
        for path in source
        if path != "operator/gpushare/templates"
    }
    assert {file for file in held if file.startswith("gpushare/")} == expected
    others = {file.split("/")[0] for file in held if not file.startswith("gpushare/")}
    assert others == {"..", f"gpushare_operator-{entry.version}.dist-info"}


def test_nothing_can_be_written_where_the_program_is(image: Image) -> None:
    written = image.python("-c", "import sys; open(sys.prefix + '/trace', 'w')")
    assert "PermissionError" in written.stderr


def test_the_program_is_not_the_checkouts(image: Image) -> None:
    found = image.python("-c", "import gpushare; print(gpushare.__file__)")
    assert Path(found.stdout).is_relative_to(image.folder)


def test_every_module_can_be_imported_from_it(image: Image) -> None:
    """What is imported late, in a branch that tests take in the checkout, is there too."""
    walk = """
import importlib, pkgutil, gpushare
for module in pkgutil.walk_packages(gpushare.__path__, "gpushare."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
"""
    assert image.python("-c", walk).stderr == ""


def test_time_zones_are_known_where_the_base_image_has_none(image: Image) -> None:
    """As on slim Debian, without its package tzdata."""
    script = """
import zoneinfo
zoneinfo.reset_tzpath(())
from gpushare.api.windows import MaintenanceWindow
print(MaintenanceWindow(schedule="0 22 * * *", duration="4h", time_zone="Asia/Shanghai").zone)
"""
    found = image.python("-c", script)
    assert (found.stdout.strip(), found.stderr) == ("Asia/Shanghai", "")


@pytest.mark.parametrize("script", SCRIPTS)
def test_every_script_says_how_it_is_used(image: Image, script: str) -> None:
    shown = image.run(script, "--help")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "Usage:" in shown.stdout


@pytest.mark.parametrize("role", ROLES)
def test_every_role_starts_and_says_in_one_line_that_there_is_no_cluster(
    image: Image, role: str, tmp_path: Path
) -> None:
    ended = image.start(role, GPUSHARE_SERVICE_ACCOUNT=str(tmp_path / "none"))
    assert ended.returncode == 1
    (line,) = ended.stderr.splitlines()
    assert str(tmp_path) in json.loads(line)["msg"]


STARTED = {"controller": "is_discovered", "run": "is_discovered", "webhook": "is_watched"}
"""By role, what a cluster sees of it once it has begun its work."""
AS_A_POD = (
    "mount -o remount,bind,ro / && mount -t tmpfs tmpfs {tmp} && "
    "exec unshare --user --map-user={user} --map-group={group} {program} {role}"
)
USERS = {"of the chart": (65532, 65532), "of a range, as on OpenShift": (1_000_680_000, 0)}


@pytest.mark.parametrize(("user", "group"), USERS.values(), ids=USERS)
@pytest.mark.parametrize("role", ROLES)
async def test_every_role_starts_for_a_user_without_name_and_home_where_only_tmp_can_be_written(
    image: Image, role: str, user: int, group: int, tmp_path: Path
) -> None:
    # As the chart's pods do: Kopf, for one, asks for the user's name where nobody tells it another.
    cluster, tmp = EmptyCluster(), tmp_path / "tmp"
    cluster.may_vacate.set()
    tmp.mkdir()
    program = image.folder / "bin" / image.entrypoint[0]
    script = AS_A_POD.format(tmp=tmp, program=program, role=role, user=user, group=group)
    environment = {key: value for key, value in image.environment.items() if key != "HOME"} | {
        "TMPDIR": str(tmp),
        "GPUSHARE_METRICS_HOST": "127.0.0.1",
        "GPUSHARE_METRICS_PORT": "0",
        "GPUSHARE_WEBHOOK_HOST": "127.0.0.1",
        "GPUSHARE_WEBHOOK_PORT": "0",
    }
    async with served_to_pods(cluster, tmp_path) as pod:
        started = await asyncio.create_subprocess_exec(
            *("unshare", "--user", "--map-root-user", "--mount", "sh", "-euc", script),
            cwd="/",
            env=environment | pod,
            stderr=asyncio.subprocess.PIPE,
        )
        begun = asyncio.create_task(getattr(cluster, STARTED[role]).wait())
        ended = asyncio.create_task(started.wait())
        await asyncio.wait({begun, ended}, timeout=60, return_when=asyncio.FIRST_COMPLETED)
        has_begun = begun.done() and not ended.done()
        begun.cancel()
        if not ended.done():
            started.terminate()
        _, said = await started.communicate()
    assert has_begun, said.decode()
    assert (started.returncode, b"Traceback" in said) == (0, False), said.decode()


async def test_the_last_hook_runs_to_its_end(image: Image, tmp_path: Path) -> None:
    async with served_to_pods(EmptyCluster(), tmp_path) as pod:
        ended = await asyncio.to_thread(image.start, "uninstall", "--pools=keep", **pod)
    assert (ended.returncode, ended.stderr) == (0, ""), ended.stdout


def test_a_kubeconfig_is_refused_with_what_reads_it(image: Image, tmp_path: Path) -> None:
    kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", {"token": "t"})
    for refused in (
        image.start("inspect", f"--kubeconfig={kubeconfig}"),
        image.start("controller", GPUSHARE_KUBECONFIG=str(kubeconfig)),
    ):
        assert refused.returncode in (1, 4)
        assert "the Python package kubernetes is not installed" in refused.stderr


def test_of_what_the_program_asks_for_kubernetes_alone_is_missing(image: Image) -> None:
    python = image.folder / "bin/python"
    checked = subprocess.run(
        [sys.executable, "-m", "pip", "--python", python, "check"], capture_output=True, text=True
    )
    (missing,) = checked.stdout.splitlines()
    assert missing.endswith(" requires kubernetes, which is not installed.")


def test_what_comes_on_top_of_the_base_image_is_bounded(image: Image) -> None:
    size_mb = sum(size for size, _ in image.files().values()) / 1e6
    assert size_mb <= ADDED_MB_LIMIT
