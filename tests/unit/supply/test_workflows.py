"""What the workflows may do, and what they run."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

PROJECT = Path(__file__).parents[3]
WORKFLOWS = sorted((PROJECT / ".github/workflows").glob("*.yaml"))
TARGETS = set(re.findall(r"^([a-z-]+):", (PROJECT / "Makefile").read_text(), re.MULTILINE))

each_workflow = pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)


def jobs_of(file: Path) -> dict[str, Any]:
    jobs: dict[str, Any] = yaml.safe_load(file.read_text())["jobs"]
    return jobs


@each_workflow
def test_actions_are_pinned_by_commit_with_their_version_beside_it(file: Path) -> None:
    used = re.findall(r"uses: (.+)", file.read_text())
    assert used
    assert [
        use for use in used if not re.fullmatch(r"\S+@[0-9a-f]{40} # v\d+\.\d+\.\d+", use)
    ] == []


@each_workflow
def test_a_workflow_may_nothing_that_a_job_does_not_ask_for(file: Path) -> None:
    assert yaml.safe_load(file.read_text())["permissions"] == {}
    assert all("permissions" in job for job in jobs_of(file).values())


@each_workflow
def test_every_job_ends_by_itself(file: Path) -> None:
    assert all(job["timeout-minutes"] <= 90 for job in jobs_of(file).values())


@each_workflow
def test_every_target_that_is_called_exists(file: Path) -> None:
    steps = [step.get("run", "") for job in jobs_of(file).values() for step in job["steps"]]
    called = set(re.findall(r"\bmake (?:--silent )?([a-z-]+)", "\n".join(steps)))
    assert called
    assert called <= TARGETS
