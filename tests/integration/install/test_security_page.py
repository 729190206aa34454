"""The page for a security team lists every right that the chart gives, in both languages."""

import re
from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from devcluster.installation import NAMESPACE, TEARDOWN_NAMESPACE, Installation
from devcluster.names import SYSTEM_NAMESPACE
from tests.kit.bench import Bench
from tests.kit.cluster.rbac_rights import list_rights
from tests.kit.values.doc_pages import DOCS, Page

PAGES = [Page(DOCS / f"security-questions{language}.md") for language in ("", ".zh-CN")]
PLACES = {
    "cluster": "",
    "整个集群": "",
    "PLUGINS": SYSTEM_NAMESPACE,
    "`kube-system`": SYSTEM_NAMESPACE,
    "RELEASE": NAMESPACE,
    f"`{TEARDOWN_NAMESPACE}`": TEARDOWN_NAMESPACE,
}
SWITCHES: Mapping[str, Mapping[str, str]] = {"eviction.enabled": {"eviction.enabled": "true"}}
TEARDOWN = "teardown.jobs.enabled"

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.path.name)
Json = dict[str, Any]
Right = tuple[str, str, str, str, str]
"""Account, namespace, resource with its group, name of the one object or nothing, verb."""


def list_told(page: Page, *switches: str) -> set[Right]:
    """What the page says that an installation with these switches on grants."""
    rights = set()
    for account in re.findall(r"^### `([\w-]+)`$", page.text, re.MULTILINE):
        for where, what, verbs, switch, _ in page.find_rows(f"### `{account}`"):
            resource, *name = re.findall(r"`(.+?)`", what)
            if switch and switch.strip("`") not in switches:
                continue
            for verb in verbs.split(", "):
                rights.add((account, PLACES[where], resource, "".join(name), verb))
    return rights


def name_resource(resource: str, group: str) -> str:
    """As people write it: `pods/eviction`, `gpusharepools.gpushare.io/status`."""
    plural, slash, part = resource.partition("/")
    return (f"{plural}.{group}" if group else plural) + slash + part


def render(bench: Bench, *switches: str) -> list[Json]:
    """The chart's objects with these switches on, and with both roles as Deployments."""
    values = {"deploy": "true"}
    for switch in switches:
        values |= SWITCHES.get(switch, {})
    installation = Installation(
        bench.cluster, values=values, all_in_one=False, teardown_jobs=TEARDOWN in switches
    )
    return [item for item in yaml.safe_load_all(installation.render()) if item]


def list_granted(bench: Bench, *switches: str) -> set[Right]:
    """What the chart's Roles grant with these switches on."""
    return {
        (
            user.rpartition(":")[2],
            right.namespace,
            name_resource(right.resource, right.group),
            right.name,
            right.verb,
        )
        for right in list_rights(render(bench, *switches))
        for user in right.users
    }


@each_page
@pytest.mark.parametrize(
    "switches", [(), ("eviction.enabled", TEARDOWN)], ids=["as it is", "all switched on"]
)
def test_the_page_for_a_security_team_lists_the_rights_that_the_chart_gives(
    installed: Bench, page: Page, switches: tuple[str, ...]
) -> None:
    assert list_told(page, *switches) == list_granted(installed, *switches)


@each_page
def test_the_page_for_a_security_team_names_the_policies_that_the_chart_brings(
    installed: Bench, page: Page
) -> None:
    told = [
        name
        for row in page.table_rows
        for name in re.findall(r"`([\w-]+)`", row.split("|")[0])
        if name.startswith("gpushare-") and name != TEARDOWN_NAMESPACE
    ]
    brought = {
        item["metadata"]["name"]
        for item in render(installed, *SWITCHES, TEARDOWN)
        if item["kind"] == "ValidatingAdmissionPolicy"
    }
    assert sorted(told) == sorted(brought)
