"""What `make audit` makes of pip-audit's answer."""

import json
from typing import Any

import pytest

from tools.vulnerabilities import judge

SOUND = {"name": "kopf", "version": "1.45.2", "vulns": []}
VULNERABLE = {"name": "jinja2", "version": "2.11.2", "vulns": [{"id": "PYSEC-2021-66"}]}
UNKNOWN = {"name": "yarl", "skip_reason": "Dependency not found on PyPI"}


def report(*dependencies: dict[str, Any]) -> str:
    return json.dumps({"dependencies": dependencies, "fixes": []})


@pytest.mark.parametrize(
    ("answer", "errors", "is_failure", "says"),
    [
        (report(SOUND, VULNERABLE), "", True, "jinja2 2.11.2: PYSEC-2021-66"),
        (report(UNKNOWN), "No known vulnerabilities found", False, "nothing was looked up"),
        (report(SOUND, UNKNOWN), "", True, "yarl"),
        ("", "ERROR: hash mismatch", True, "hash mismatch"),
    ],
    ids=["a vulnerability", "an index without advisories", "a package left out", "no answer"],
)
def test_what_is_known_or_unknown_of_a_package_is_named(
    answer: str, errors: str, is_failure: bool, says: str
) -> None:
    verdict = judge(answer, errors)
    assert verdict.is_failure is is_failure
    assert says in verdict.line
