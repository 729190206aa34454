"""The page for a security team lists every right that the chart gives, in both languages."""

import re

import pytest

from devcluster.installation import NAMESPACE, TEARDOWN_NAMESPACE
from devcluster.names import SYSTEM_NAMESPACE
from tests.integration.chart.chart_values import NEEDED, Values, build_all_on, render_objects
from tests.kit.bench import Bench
from tests.kit.cluster.rbac_rights import Right, list_rights
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
AS_IT_IS: Values = {}
ALL_ON: Values = build_all_on(
    **{"allInOne": False, "teardown.jobs.namespace": TEARDOWN_NAMESPACE, "crds.keep": True},
    **{"admissionPolicy.enabled": True},
)

ONE_ON: dict[str, Values] = {
    switch: {**NEEDED, "teardown.jobs.namespace": TEARDOWN_NAMESPACE, switch: True}
    for switch in ("eviction.enabled", "teardown.jobs.enabled", "admissionPolicy.enabled")
}
"""So that a right under another switch than the page says shows."""

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.path.name)
Told = tuple[str, str, str, str, str]
"""Account, namespace, resource with its group, name of the one object or nothing, verb."""


def list_told(page: Page, values: Values) -> set[Told]:
    """What the page says that an installation with these values grants."""
    rights = set()
    for account in re.findall(r"^### `([\w-]+)`$", page.text, re.MULTILINE):
        for where, what, verbs, switch, _ in page.find_rows(f"### `{account}`"):
            resource, *name = re.findall(r"`(.+?)`", what)
            if switch and not values.get(switch.strip("`")):
                continue
            for verb in verbs.split(", "):
                rights.add((account, PLACES[where], resource, "".join(name), verb))
    return rights


def name_resource(right: Right) -> str:
    """As people write it: `pods/eviction`, `gpusharepools.gpushare.io/status`."""
    plural, slash, part = right.resource.partition("/")
    return (f"{plural}.{right.group}" if right.group else plural) + slash + part


@each_page
@pytest.mark.parametrize(
    "values",
    [AS_IT_IS, ALL_ON, *ONE_ON.values()],
    ids=["as it is", "all switched on", *ONE_ON],
)
def test_the_page_for_a_security_team_lists_the_rights_that_the_chart_gives(
    installed: Bench, page: Page, values: Values
) -> None:
    granted = {
        (user.rpartition(":")[2], right.namespace, name_resource(right), right.name, right.verb)
        for right in list_rights(render_objects(installed.cluster, values))
        for user in right.users
    }
    assert list_told(page, values) == granted


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
    brought = [
        item["metadata"]["name"]
        for item in render_objects(installed.cluster, ALL_ON)
        if item["kind"] in ("MutatingAdmissionPolicy", "ValidatingAdmissionPolicy")
    ]
    assert sorted(told) == sorted(brought)
