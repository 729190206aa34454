"""`make audit` lists known vulnerabilities of the image's requirements, if the database answers."""

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

REQUIREMENTS = "requirements/runtime.txt"
UNREACHED = re.compile(r"^(requests\.exceptions\.\w+|\S*ServiceError)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Verdict:
    """A line for a user, and whether it is a failure."""

    line: str
    is_failure: bool


def judge(output: str, errors: str) -> Verdict:
    """Judge the JSON of pip-audit.

    It also says "no known vulnerabilities" where it could look nothing up: an index that mirrors
    packages without their advisories answers that it knows none of them.
    """
    try:
        found: list[dict[str, Any]] = json.loads(output)["dependencies"]
    except ValueError:
        if UNREACHED.search(errors):
            return Verdict(
                "audit: no answer from the vulnerability data; nothing was looked up", False
            )
        return Verdict(f"audit: pip-audit failed:\n{errors.strip()}", True)
    audited = [entry for entry in found if "vulns" in entry]
    if not audited:
        return Verdict(
            "audit: no vulnerability data is reachable here; nothing was looked up", False
        )
    if skipped := [entry["name"] for entry in found if "vulns" not in entry]:
        return Verdict(f"audit: nothing is known about {', '.join(skipped)}", True)
    vulnerable = [
        f"{entry['name']} {entry['version']}: {', '.join(vuln['id'] for vuln in entry['vulns'])}"
        for entry in audited
        if entry["vulns"]
    ]
    if vulnerable:
        return Verdict("audit: vulnerable: " + "; ".join(vulnerable), True)
    return Verdict(f"audit: no known vulnerability in {len(audited)} packages", False)


def main(pip_audit: str) -> int:
    """Run pip-audit on the pinned requirements."""
    pinned = ["--disable-pip", "--require-hashes", "--requirement", REQUIREMENTS]
    ended = subprocess.run(
        [pip_audit, *pinned, "--progress-spinner", "off", "--format", "json"],
        capture_output=True,
        text=True,
        check=False,
    )
    verdict = judge(ended.stdout, ended.stderr)
    print(verdict.line)
    return int(verdict.is_failure)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
