"""What `make audit` makes of pip-audit's answer."""

import json
from typing import Any

from tests.vulnerabilities import judge

SOUND = {"name": "kopf", "version": "1.45.2", "vulns": []}
VULNERABLE = {"name": "jinja2", "version": "2.11.2", "vulns": [{"id": "PYSEC-2021-66"}]}
UNKNOWN = {"name": "yarl", "skip_reason": "Dependency not found on PyPI"}


def report(*dependencies: dict[str, Any]) -> str:
    return json.dumps({"dependencies": dependencies, "fixes": []})


def test_a_vulnerability_fails_and_is_named() -> None:
    verdict = judge(report(SOUND, VULNERABLE), "")
    assert verdict.is_failure
    assert "jinja2 2.11.2: PYSEC-2021-66" in verdict.line


def test_an_index_without_advisories_is_not_taken_for_good_news() -> None:
    verdict = judge(report(UNKNOWN), "No known vulnerabilities found")
    assert not verdict.is_failure
    assert "nothing was looked up" in verdict.line


def test_a_package_that_was_left_out_fails() -> None:
    assert judge(report(SOUND, UNKNOWN), "").is_failure


def test_any_other_failure_fails() -> None:
    verdict = judge("", "ERROR: hash mismatch")
    assert verdict.is_failure
    assert "hash mismatch" in verdict.line
