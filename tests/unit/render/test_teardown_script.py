"""The script of a teardown's Jobs, run by /bin/sh on a node that is a folder."""

import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from gpushare.render import read_template

SCRIPT = read_template("teardown.sh")
UNINSTALLER = "usr/local/cgpu-installer/uninstall.sh"
SENTINEL, MARKER = "var/run/reboot-required", "var/lib/gpushare-teardown/uninstalled"
POD, NEXT_POD, OTHERS = (
    "gpushare-uninstall-1a2b-xxxxx",
    "gpushare-uninstall-1a2b-yyyyy",
    "gpushare-uninstall-9f8e-zzzzz",
)
"""The Job's pod, the one that follows it, and a pod of another teardown's Job."""
# A unit that runs at once, in the foreground, and is over when it is asked for.
SYSTEMD_RUN = """while [ "${1#--}" != "$1" ]; do shift; done; "$@" || true"""
SYSTEMCTL = """
eval "unit=\\${$#}"
case "$1" in
is-active) grep -qx "$unit" "$TEARDOWN_ROOT/active" ;;
*) echo "$*" >>"$TEARDOWN_ROOT/calls" ;;
esac
"""


@dataclass(frozen=True)
class Host:
    """A node's files, and the programs that the script finds there."""

    root: Path

    def write(self, path: str, text: str = "") -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def read(self, path: str) -> str:
        return (self.root / path).read_text() if self.has(path) else ""

    def has(self, path: str) -> bool:
        return (self.root / path).exists()

    def remove(self, path: str) -> None:
        (self.root / path).unlink(missing_ok=True)

    def install(self, program: str, text: str) -> None:
        self.write(f"bin/{program}", f"#!/bin/sh\n{text}\n")
        (self.root / "bin" / program).chmod(0o755)

    def load(self) -> None:
        self.write("proc/cgpu_km/version", "0.8.13")
        (self.root / "proc/cgpu_km/0").mkdir()
        self.write("proc/modules", "nvidia 1 0\ncgpu_km 65536 1 nvidia, Live\n")

    def boot(self, number: int, *, loaded: bool) -> None:
        """Another boot: what is in memory is gone, and a module that has no file too."""
        self.write("proc/sys/kernel/random/boot_id", f"boot-{number}\n")
        self.remove(SENTINEL)
        if not loaded:
            self.remove("proc/cgpu_km/version")
            for folder in ("proc/cgpu_km/0", "proc/cgpu_km"):
                if self.has(folder):
                    (self.root / folder).rmdir()
            self.write("proc/modules", "nvidia 1 0\n")

    def run(self, *arguments: str, pod: str = POD) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": f"{self.root}/bin:{os.environ['PATH']}", "HOSTNAME": pod}
        return subprocess.run(
            ["/bin/sh", "-c", SCRIPT, "gpushare-teardown", *arguments],
            env={**environment, "TEARDOWN_ROOT": str(self.root)},
            capture_output=True,
            text=True,
            check=False,
        )

    def succeed(self, *arguments: str, pod: str = POD) -> str:
        done = self.run(*arguments, pod=pod)
        assert done.returncode == 0, done
        return done.stdout

    def refuse(self, *arguments: str) -> str:
        done = self.run(*arguments)
        assert done.returncode == 1, done
        return done.stdout + done.stderr

    @property
    def calls(self) -> list[str]:
        """What was asked of systemd, and of the uninstaller."""
        return self.read("calls").splitlines()


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """A node with Docker in its first boot, on which the module is loaded."""
    host = Host(tmp_path)
    host.boot(1, loaded=True)
    host.load()
    host.write("active", "docker\ndocker.socket\ncontainerd\n")
    (tmp_path / "var/run").mkdir(parents=True)
    host.write(UNINSTALLER, 'echo uninstall.sh >>"$TEARDOWN_ROOT/calls"\n')
    host.install("systemctl", SYSTEMCTL)
    host.install("systemd-run", SYSTEMD_RUN)
    host.install("sleep", "exit 0")
    return host


def test_the_uninstaller_runs_while_the_runtime_is_stopped(host: Host) -> None:
    assert "stays loaded until the node reboots" in host.succeed("uninstall")
    assert host.calls == [
        "stop docker.socket docker",
        "uninstall.sh",
        "start docker.socket docker",
    ]
    assert host.read(MARKER) == "boot-1 gpushare-uninstall-1a2b\n"
    assert not host.has(SENTINEL)


def test_where_docker_does_not_run_it_is_containerd_that_is_stopped(host: Host) -> None:
    host.write("active", "containerd\n")
    host.succeed("uninstall")
    assert host.calls == ["stop containerd", "uninstall.sh", "start containerd"]


def test_kureds_file_is_left_only_when_asked_for_and_after_all_the_rest(host: Host) -> None:
    host.succeed("uninstall", "sentinel")
    assert host.has(SENTINEL)
    host.boot(2, loaded=True)
    host.write(UNINSTALLER, "exit 3\n")
    host.refuse("uninstall", "sentinel")
    assert not host.has(SENTINEL)


def test_a_second_run_in_the_same_boot_does_nothing_again(host: Host) -> None:
    host.succeed("uninstall")
    calls = host.calls
    assert "removed in this boot" in host.succeed("uninstall")
    assert host.calls == calls


def test_a_second_run_waits_for_the_unit_that_is_at_work(host: Host) -> None:
    host.write("active", "docker\ngpushare-teardown\n")
    end = f'echo boot-1 >"$TEARDOWN_ROOT/{MARKER}"; echo docker >"$TEARDOWN_ROOT/active"'
    host.write("var/lib/gpushare-teardown/log", "stopping docker\n")
    host.install("sleep", end)
    assert "stopping docker" in host.succeed("uninstall")
    assert host.calls == []


def test_a_failed_uninstaller_starts_the_runtime_again_and_fails_for_good(host: Host) -> None:
    host.write(UNINSTALLER, "echo the hook is in use; exit 3\n")
    said = host.refuse("uninstall", "sentinel")
    assert "the hook is in use" in said
    assert "exited with 3" in said
    assert host.calls[-1] == "start docker.socket docker"
    assert not host.has(MARKER)
    assert not host.has(SENTINEL)


@pytest.mark.parametrize(
    ("prepare", "says"),
    [
        (lambda host: host.write("proc/cgpu_km/0/instance-1/id"), "instance-1"),
        (lambda host: host.remove(UNINSTALLER), "remove the module manually"),
        (lambda host: host.write("active", "crio\n"), "neither docker nor containerd"),
    ],
    ids=["a container has an instance", "no uninstaller", "no runtime that it knows"],
)
def test_it_refuses_before_anything_is_stopped(
    host: Host, prepare: Callable[[Host], None], says: str
) -> None:
    prepare(host)
    assert says in host.refuse("uninstall")
    assert host.calls == []


def test_a_module_that_is_not_loaded_is_success_and_the_reboot_is_still_asked_for(
    host: Host,
) -> None:
    host.boot(1, loaded=False)
    assert "no module is loaded" in host.succeed("uninstall")
    assert not host.has(SENTINEL)
    host.succeed("uninstall", "sentinel")
    assert (host.calls, host.has(SENTINEL)) == ([], True)


def test_no_second_reboot_is_asked_for_by_a_job_that_runs_again_after_the_first(
    host: Host,
) -> None:
    host.succeed("uninstall", "sentinel")
    host.boot(2, loaded=False)
    host.succeed("uninstall", "sentinel", pod=NEXT_POD)
    assert not host.has(SENTINEL)


def test_a_module_that_outlived_the_reboot_is_not_removed_again_by_the_same_job(
    host: Host,
) -> None:
    host.succeed("uninstall", "sentinel")
    calls = host.calls
    host.boot(2, loaded=True)
    assert "loaded again after the reboot" in host.refuse("uninstall", "sentinel")
    assert (host.calls, host.has(SENTINEL)) == (calls, False)


def test_what_an_earlier_teardown_left_does_not_count(host: Host) -> None:
    host.succeed("uninstall", "sentinel")
    host.boot(2, loaded=False)
    host.succeed("uninstall", "sentinel", pod=OTHERS)
    assert host.has(SENTINEL)
    host.boot(3, loaded=True)
    host.load()
    assert "stays loaded until the node reboots" in host.succeed("uninstall", pod=OTHERS)


@pytest.mark.parametrize("module", ["cgpu_km", "cgpu_procfs", "km"])
def test_any_module_of_cgpu_is_seen(host: Host, module: str) -> None:
    host.boot(2, loaded=False)
    host.write("proc/modules", f"nvidia 1 0\n{module} 65536 0 - Live\n")
    assert "cGPU module is loaded" in host.refuse("verify")


@pytest.mark.parametrize("arguments", [("verify",), ("uninstall", "sentinel")])
def test_where_nobody_knows_what_is_loaded_it_fails(host: Host, arguments: tuple[str, ...]) -> None:
    host.boot(2, loaded=False)
    host.remove("proc/modules")
    assert "cannot read /proc/modules" in host.refuse(*arguments)


def test_a_node_without_one_is_verified(host: Host) -> None:
    assert "cGPU module is loaded" in host.refuse("verify")
    host.boot(2, loaded=False)
    host.write("proc/modules", "nvidia 1 0\nkmod_cgpu_km 1 0\n")
    assert "no cGPU module" in host.succeed("verify")


def test_who_comes_second_waits_for_the_unit_that_the_first_has_started(host: Host) -> None:
    host.write("var/lib/gpushare-teardown/log")
    end = f'echo boot-1 >"$TEARDOWN_ROOT/{MARKER}"'
    # Between its look and its start another pod started the unit.
    host.install("systemd-run", f"{end}; echo already loaded >&2; exit 1")
    assert "removed" in host.succeed("uninstall")


def test_a_unit_that_can_not_be_started_is_a_failure(host: Host) -> None:
    host.install("systemd-run", "exit 1")
    assert "could not start the unit" in host.refuse("uninstall")


def test_a_module_that_was_put_back_in_the_same_boot_is_removed_again(host: Host) -> None:
    host.succeed("uninstall")
    calls = host.calls
    host.succeed("uninstall", pod=OTHERS)
    assert host.calls == calls * 2
    host.write(UNINSTALLER, "exit 3\n")
    assert "was not removed" in host.refuse("uninstall")


def test_a_removed_module_is_not_removed_again_where_no_installer_has_been_there_since(
    host: Host,
) -> None:
    host.succeed("uninstall")
    host.remove(UNINSTALLER)
    assert "removed in this boot" in host.succeed("uninstall", pod=OTHERS)


@pytest.mark.parametrize("end", ["exit 124", "kill -TERM $PPID"], ids=["hangs", "unit stopped"])
def test_whatever_becomes_of_the_uninstaller_the_node_has_its_runtime_again(
    host: Host, end: str
) -> None:
    host.install("timeout", end)
    assert "was not removed" in host.refuse("uninstall")
    assert host.calls == ["stop docker.socket docker", "start docker.socket docker"]


@pytest.mark.parametrize("arguments", [(), ("reboot",), ("verify ; reboot",)])
def test_other_arguments_do_nothing(host: Host, arguments: tuple[str, ...]) -> None:
    assert "expected uninstall" in host.refuse(*arguments)
    assert host.calls == []
