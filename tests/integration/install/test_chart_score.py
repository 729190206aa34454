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
EXCEPTIONS = yaml.safe_load(Path(__file__).with_name("chart-score-exceptions.yaml").read_text())


@dataclass(frozen=True, order=True)
class Finding:
    """Something that kube-score holds against `subject`, KIND/NAME, in a rendering."""

    rendered: str
    subject: str
    check: str

    def is_excused(self, entry: Mapping[str, Any]) -> bool:
        """Whether an exception argues for it."""
        return (
            self.check == entry["check"]
            and self.subject in entry["objects"]
            and self.rendered in entry.get("renderings", RENDERINGS)
        )


@pytest.fixture(scope="module")
def findings(installed: Bench) -> list[Finding]:
    """Of every rendering."""
    found = [
        finding
        for rendered, values in RENDERINGS.items()
        for finding in score(rendered, render_manifests(installed.cluster, values))
    ]
    assert found, "kube-score was not asked, or looked at nothing"
    return sorted(found)


def score(rendered: str, manifests: str) -> Iterator[Finding]:
    program = ensure_binaries(os.environ, KUBE_SCORE) / "kube-score"
    major, minor = read_oldest_kubernetes()
    optional = [f"--enable-optional-test={check}" for check in ALSO]
    scored = subprocess.run(
        [program, "score", "--output-format=json", f"--kubernetes-version=v{major}.{minor}",
         *optional, "-"],
        input=manifests.encode(),
        capture_output=True,
        check=False,
    )  # fmt: skip
    assert not scored.stderr, scored.stderr.decode()
    for item in orjson.loads(scored.stdout):
        subject = f"{item['type_meta']['kind']}/{item['object_meta']['name']}"
        for entry in item["checks"]:
            if not entry["skipped"] and entry["grade"] < CLEAN:
                yield Finding(rendered, subject, entry["check"]["id"])


def test_all_that_it_finds_is_argued(findings: list[Finding]) -> None:
    assert [each for each in findings if not any(map(each.is_excused, EXCEPTIONS))] == []


@pytest.mark.parametrize("entry", EXCEPTIONS, ids=lambda entry: entry["check"])
def test_all_that_is_argued_is_still_found(findings: list[Finding], entry: dict[str, Any]) -> None:
    assert entry["argument"]
    assert {each.subject for each in findings if each.is_excused(entry)} == set(entry["objects"])
