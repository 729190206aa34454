"""Granted minus used: the rights of the chart that no test of the operator needed.

`python -m tests.rights FOLDER` reads what the test sessions left in FOLDER, by whose audit logs the
operator used its rights. The exit status is 0 where what remains is what was reviewed.
"""

import os
import sys
from collections.abc import Mapping, Set
from pathlib import Path

import orjson
import yaml

from devcluster.installation import Installation
from tests.integration.install.uninstall_hook import POOLS_GO, render_hook
from tests.kit.bench import Bench
from tests.kit.cluster.rbac_rights import find_used, list_rights

FOLDER_VARIABLE = "GPUSHARE_RIGHTS"
"""Folder where each session leaves what it saw; without it, none does."""
REVIEWED: Mapping[str, str] = {
    "Role gpushare-teardown in gpushare-teardown: get jobs.batch": (
        "reads a Job of the same name that its watch has not told of yet: a matter of milliseconds"
    ),
    "Role gpushare-webhook in gpushare-system: update secrets gpushare-webhook-tls": (
        "replaces a certificate that is due: test_certificate_rotation.py, of make test-outages"
    ),
}
"""Rights that are granted though no test is sure to make the operator use them, with the reason."""
_SWITCHES = {"eviction.enabled": "true", "admissionPolicy.enabled": "true"}


def leave_rights(bench: Bench, environment: Mapping[str, str] = os.environ) -> None:
    """Write down what the chart grants with all its switches on, and what was used on `bench`."""
    if not (folder := environment.get(FOLDER_VARIABLE)):
        return
    everything = Installation(bench.cluster, values=_SWITCHES, teardown_jobs=True).render()
    hooks = (render_hook(bench, values) for values in ({}, POOLS_GO))
    rights = [
        right
        for objects in ([item for item in yaml.safe_load_all(everything) if item], *hooks)
        for right in list_rights(objects)
    ]
    used = find_used(rights, bench.audit.all_calls())
    seen = {"granted": sorted(map(str, rights)), "used": sorted(map(str, used))}
    Path(folder, f"{os.getpid()}.json").write_bytes(orjson.dumps(seen))


def find_complaints(granted: Set[str], used: Set[str], reviewed: Set[str]) -> list[str]:
    """What is wrong, a line each."""
    return [
        *(f"granted, and never used: {right}" for right in sorted(granted - used - reviewed)),
        *(f"reviewed, and not granted: {right}" for right in sorted(reviewed - granted)),
    ]


def main(folder: Path) -> int:
    """Compare, print, and return the exit status."""
    sessions = [orjson.loads(path.read_bytes()) for path in folder.glob("*.json")]
    if not sessions:
        print(f"no session left anything in {folder}; run pytest with {FOLDER_VARIABLE}={folder}")
        return 1
    granted = {right for session in sessions for right in session["granted"]}
    used = {right for session in sessions for right in session["used"]}
    complaints = find_complaints(granted, used, REVIEWED.keys())
    print(f"rights: {len(granted)} granted, {len(used)} used, {len(REVIEWED)} reviewed")
    print("\n".join(complaints), end="\n" if complaints else "")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
