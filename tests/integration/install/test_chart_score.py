"""The chart by kube-score: clean, but for what is argued in chart-score-exceptions.yaml."""

import os
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from devcluster.toolchain import KUBE_SCORE, ensure_binaries
from tests.integration.chart.chart_values import (
    Values,
    build_all_on,
    read_oldest_kubernetes,
    render_manifests,
)
from tests.kit.bench import Bench

RENDERINGS: Mapping[str, Values] = {
    "default": {},
    "every switch": build_all_on(allInOne=False),
    "every switch, one process": build_all_on(allInOne=True),
}
ALSO = ("container-ports-check", "container-seccomp-profile")
"""Checks that kube-score makes only when asked."""
CLEAN = 10
"""The best grade."""
_EXCEPTIONS = Path(__file__).with_name("chart-score-exceptions.yaml")


@dataclass(frozen=True, order=True)
class Finding:
    """Something that kube-score holds against `subject`, KIND/NAME, in a rendering."""

    rendering: str
    subject: str
    check: str


@dataclass(frozen=True)
class Verdict:
    """What kube-score looked at, and what it found."""

    subjects: frozenset[tuple[str, str]]
    findings: frozenset[Finding]


def read_report(rendering: str, report: list[Any]) -> Iterator[tuple[str, Finding | None]]:
    """Each object's KIND/NAME with each check that it fails, and once with none."""
    for item in report:
        subject = f"{item['type_meta']['kind']}/{item['object_meta']['name']}"
        yield subject, None
        for entry in item["checks"]:
            if not entry["skipped"] and entry["grade"] < CLEAN:
                yield subject, Finding(rendering, subject, entry["check"]["id"])


@pytest.fixture(scope="module")
def verdict(installed: Bench) -> Verdict:
    """Of every rendering."""
    program = ensure_binaries(os.environ, KUBE_SCORE) / "kube-score"
    major, minor = read_oldest_kubernetes()
    optional = [f"--enable-optional-test={check}" for check in ALSO]
    subjects, findings = set(), set()
    for rendering, values in RENDERINGS.items():
        scored = subprocess.run(
            [program, "score", "--output-format=json", f"--kubernetes-version=v{major}.{minor}",
             *optional, "-"],
            input=render_manifests(installed.cluster, values).encode(),
            capture_output=True,
            check=False,
        )  # fmt: skip
        assert not scored.stderr, scored.stderr.decode()
        for subject, finding in read_report(rendering, orjson.loads(scored.stdout)):
            subjects.add((rendering, subject))
            if finding:
                findings.add(finding)
    return Verdict(frozenset(subjects), frozenset(findings))


def list_excused(verdict: Verdict) -> set[Finding]:
    """What the exceptions say that there is, in renderings that have the object."""
    return {
        Finding(rendering, subject, entry["check"])
        for entry in yaml.safe_load(_EXCEPTIONS.read_text())
        for subject in entry["objects"]
        for rendering in entry.get("renderings", RENDERINGS)
        if (rendering, subject) in verdict.subjects or "renderings" in entry
    }


def test_all_that_it_finds_is_argued(verdict: Verdict) -> None:
    assert verdict.findings, "kube-score was not asked, or looked at nothing"
    assert sorted(verdict.findings - list_excused(verdict)) == []


def test_all_that_is_argued_is_still_found(verdict: Verdict) -> None:
    assert sorted(list_excused(verdict) - verdict.findings) == []


@pytest.mark.parametrize("entry", yaml.safe_load(_EXCEPTIONS.read_text()), ids=lambda e: e["check"])
def test_an_exception_is_of_an_object_that_is_there(
    verdict: Verdict, entry: dict[str, Any]
) -> None:
    assert set(entry["objects"]) <= {subject for _, subject in verdict.subjects}
    assert entry["argument"]
