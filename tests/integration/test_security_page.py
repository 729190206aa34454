"""The page for a security team lists every right that the chart gives, in both languages."""

import re
from collections.abc import Mapping

import pytest
import yaml

from devcluster.installation import NAMESPACE, TEARDOWN_NAMESPACE, Installation
from devcluster.names import SYSTEM_NAMESPACE
from tests.kit.bench import Bench
from tests.kit.pages import DOCS, Page
from tests.kit.rights import list_rights

PAGES = [Page(DOCS / f"security-questions{language}.md") for language in ("", ".zh-CN")]
PLACES = {
    "cluster": "",
    "整个集群": "",
    "PLUGINS": SYSTEM_NAMESPACE,
    "RELEASE": NAMESPACE,
    f"`{TEARDOWN_NAMESPACE}`": TEARDOWN_NAMESPACE,
}
SWITCHES: Mapping[str, Mapping[str, str]] = {"eviction.enabled": {"eviction.enabled": "true"}}
TEARDOWN = "teardown.jobs.enabled"

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


def list_granted(bench: Bench, *switches: str) -> set[Right]:
    """What the chart's Roles grant with these switches on."""
    values = {"deploy": "true"}
    for switch in switches:
        values |= SWITCHES.get(switch, {})
    rendered = Installation(
        bench.cluster, values=values, all_in_one=False, teardown_jobs=TEARDOWN in switches
    ).render()
    objects = [item for item in yaml.safe_load_all(rendered) if item]
    return {
        (
            user.rpartition(":")[2],
            right.namespace,
            name_resource(right.resource, right.group),
            right.name,
            right.verb,
        )
        for right in list_rights(objects)
        for user in right.users
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.path.name)
@pytest.mark.parametrize(
    "switches", [(), ("eviction.enabled", TEARDOWN)], ids=["as it is", "all switched on"]
)
def test_the_page_for_a_security_team_lists_the_rights_that_the_chart_gives(
    installed: Bench, page: Page, switches: tuple[str, ...]
) -> None:
    assert list_told(page, *switches) == list_granted(installed, *switches)
