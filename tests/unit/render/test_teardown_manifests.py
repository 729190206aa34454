"""What is rendered for a teardown: whatever stands in names, nothing breaks out of its place."""

import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpushare.api.k8s.job import JobState, parse_job
from gpushare.core.snapshot.actions import CreateJob, JobPhase
from gpushare.kube.events import MAX_NOTE
from gpushare.render import read_template
from gpushare.render.teardown import render_teardown_commands, render_teardown_job

CONTAINERD = "containerd://2.1.0"
HOSTILE = [
    "{{ 7 * 7 }}",
    "{% include 'teardown.sh' %}",
    "---\napiVersion: v1\nkind: Pod",
    "n1'; reboot; '",
    'n1"]}],"hostNetwork": true',
    "$(reboot) `reboot` ${HOME}",
    "n1\n  privileged: true # ",
    "\x00\x07\x7f\x85\ufeff\u2028\ud7ff\U0001f600",
]
texts = st.one_of(st.sampled_from(HOSTILE), st.text())


def _job(**more: Any) -> CreateJob:
    values: dict[str, Any] = {"node": "n1", "name": "gpushare-verify-1", "phase": JobPhase.VERIFY}
    return CreateJob(**{**values, **more})


def _render(job: CreateJob, **more: str) -> dict[str, Any]:
    values = {"pool": "training", "namespace": "gpushare-teardown", "image": "shell:v1", **more}
    return render_teardown_job(job, **values)


PLAIN = _render(_job(node="n1", name="name"), pool="pool", image="image")


def _put_in(manifest: Any, values: dict[str, str]) -> Any:
    """The manifest with other values in the places of these."""
    if isinstance(manifest, dict):
        return {key: _put_in(value, values) for key, value in manifest.items()}
    if isinstance(manifest, list):
        return [_put_in(value, values) for value in manifest]
    return values.get(manifest, manifest) if isinstance(manifest, str) else manifest


@pytest.mark.parametrize(
    ("phase", "leaves_sentinel", "arguments"),
    [
        (JobPhase.UNINSTALL, False, ["uninstall"]),
        (JobPhase.UNINSTALL, True, ["uninstall", "sentinel"]),
        (JobPhase.VERIFY, False, ["verify"]),
    ],
)
def test_each_phase_has_its_arguments(
    phase: JobPhase, leaves_sentinel: bool, arguments: list[str]
) -> None:
    job = _render(_job(phase=phase, leaves_sentinel=leaves_sentinel))
    assert job["spec"]["template"]["spec"]["containers"][0]["args"] == arguments


def test_it_is_read_back_as_a_job_of_its_node() -> None:
    raw = _render(_job(node="n1." + "x" * 250))
    raw["metadata"]["uid"] = "uid-1"
    job = parse_job(raw)
    assert job is not None
    assert (job.namespace, job.node, job.state) == (
        "gpushare-teardown",
        "n1." + "x" * 250,
        JobState.RUNNING,
    )
    assert all(len(value) <= 63 for value in raw["metadata"]["labels"].values())


@given(texts, texts, texts, texts)
@example("n1", "Never", "put in", "Never")
@example("{{ x }}" * 30_000, "training", "shell:v1", "name")
def test_whatever_the_names_are_the_manifest_keeps_its_structure(
    node: str, pool: str, image: str, name: str
) -> None:
    rendered = _render(_job(node=node, name=name), pool=pool, image=image)
    terms = rendered["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    (term,) = terms["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term["matchFields"][0]["values"] == [node]
    assert rendered["metadata"]["name"] == name
    assert rendered["metadata"]["annotations"] == {
        "gpushare.io/node": node,
        "gpushare.io/for-pool": pool,
    }
    assert rendered["spec"]["template"]["spec"]["containers"][0]["image"] == image
    plain_hash, found_hash = (
        each["metadata"]["labels"]["gpushare.io/node"] for each in (PLAIN, rendered)
    )
    values = {"n1": node, "pool": pool, "image": image, "name": name, plain_hash: found_hash}
    assert rendered == _put_in(PLAIN, values)


@given(texts)
def test_a_shell_reads_the_commands_with_the_name_in_its_place(node: str) -> None:
    *_, last = render_teardown_commands("n1", CONTAINERD).splitlines()
    words = shlex.split(last)
    lines = render_teardown_commands(node, CONTAINERD)
    assert shlex.split(lines[lines.index("kubectl annotate") :]) == [
        node if word == "n1" else word for word in words
    ]


@pytest.mark.parametrize(
    ("program", "status", "before"),
    [("ls", 0, []), ("systemctl", 1, ["ls"]), ("bash", 3, ["ls", "systemctl"])],
    ids=["an instance is listed", "the runtime goes on", "the uninstaller fails"],
)
def test_a_step_that_fails_is_the_last_before_the_reboot(
    tmp_path: Path, program: str, status: int, before: list[str]
) -> None:
    ends = {"ls": 2, "systemctl": 0, "bash": 0, "reboot": 0, "grep": 1, "kubectl": 0}
    for name, end in {**ends, program: status}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\necho {name}\nexit {end}\n")
        (tmp_path / name).chmod(0o755)
    commands, _ = render_teardown_commands("n1", CONTAINERD).split("# After that")
    done = subprocess.run(
        ["/bin/sh", "-c", commands],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == [*before, program]


@pytest.mark.parametrize(
    ("runtime", "stopped"),
    [(CONTAINERD, "containerd"), ("", "containerd"), ("docker://20.10.24", "docker.socket docker")],
)
def test_the_runtime_that_the_node_has_is_stopped(runtime: str, stopped: str) -> None:
    lines = render_teardown_commands("n1", runtime).splitlines()
    assert [line for line in lines if "systemctl" in line] == [f"systemctl stop {stopped} &&"]


def test_the_commands_fit_into_an_event_for_any_node_and_pool() -> None:
    commands = render_teardown_commands("x" * 253, "docker://26")
    assert len(f"Pool {'x' * 63}: Run these commands:\n{commands}".encode()) <= MAX_NOTE


def test_a_person_and_a_job_run_the_same_uninstaller_and_look_for_the_same_modules() -> None:
    script, commands = read_template("teardown.sh"), render_teardown_commands("n1", CONTAINERD)
    for fact in (
        "/usr/local/cgpu-installer/uninstall.sh",
        "/proc/cgpu_km",
        "/[0-9]*/*/",
    ):
        assert fact.removeprefix("/usr") in script
        assert fact in commands
    assert "cgpu_km | cgpu_procfs | km)" in script
    assert "'^(cgpu_km|cgpu_procfs|km) '" in commands
