"""When and how the API server calls each webhook, against what the chart writes."""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gpushare.core.analysis.doctor.webhook_names import NAME, OTHER_PODS, PODS, WORKLOADS

Json = Mapping[str, Any]
Rule = tuple[str, str, frozenset[str]]
"""API group, resource and operations."""

_CREATE, _WRITE = frozenset({"CREATE"}), frozenset({"CREATE", "UPDATE"})
_POD_RULES: frozenset[Rule] = frozenset({("", "pods", _CREATE)})
_RULES: Mapping[str, frozenset[Rule]] = {
    PODS: _POD_RULES,
    OTHER_PODS: _POD_RULES,
    WORKLOADS: frozenset(
        {
            *(("apps", each, _WRITE) for each in ("deployments", "statefulsets", "daemonsets")),
            *(("batch", each, _WRITE) for each in ("jobs", "cronjobs")),
        }
    ),
}
_POD_CONDITIONS = {"concerns-gpu-sharing": "20a3efd2523d51a7"}
_CONDITIONS: Mapping[str, Mapping[str, str]] = {
    PODS: _POD_CONDITIONS,
    OTHER_PODS: _POD_CONDITIONS,
    WORKLOADS: {
        "concerns-gpu-sharing": "0410510b05ede2ee",
        "template-is-new": "1ddfff9d62d6025b",
    },
}
"""Each expression by the digest of its text without white space."""
_PATHS = {PODS: "/mutate-pods", OTHER_PODS: "/mutate-pods", WORKLOADS: "/warn-workloads"}
_REINVOCATION = {PODS: "IfNeeded", OTHER_PODS: "IfNeeded", WORKLOADS: "Never"}
_ORIGIN = re.compile(r"https://[^/?#]+")
"""What the chart lets webhook.url be."""
_TIMEOUT_SECONDS = 10
_DEFAULTS = {"matchPolicy": "Equivalent", "reinvocationPolicy": "Never"}
"""These and the timeout are the API server's, for what is left out."""


def find_call_changes(webhook: Json, namespace: str) -> Iterator[str]:
    """What of the calls of `webhook`, of an installation in `namespace`, is not the chart's.

    Its timeout and the host of a URL are values: `find_disagreements` holds them to the others'.
    """
    name = webhook["name"]
    for field, wanted in (
        ("matchPolicy", "Equivalent"),
        ("reinvocationPolicy", _REINVOCATION[name]),
    ):
        if (found := webhook.get(field, _DEFAULTS[field])) != wanted:
            yield f"{field} is {found}, and {wanted} was expected"
    rules = frozenset(rule for raw in webhook.get("rules") or () for rule in _list_rules(raw))
    if rules != _RULES[name]:
        shown = sorted(f"{'/'.join(sorted(ops))} of {what}" for _, what, ops in rules)
        yield f"its rules are about {', '.join(shown) or 'nothing'}"
    conditions = webhook.get("matchConditions") or ()
    found_names = [each["name"] for each in conditions]
    if found_names != [*_CONDITIONS[name]]:
        yield f"its matchConditions are {', '.join(found_names) or 'none'}"
    for each in conditions:
        digest = _CONDITIONS[name].get(each["name"])
        if digest is not None and _digest(each.get("expression", "")) != digest:
            yield f"the expression of its matchCondition {each['name']} is another one"
    if (told := _find_other_place(webhook, namespace)) is not None:
        yield told


def find_disagreements(webhooks: Iterable[Json], namespace: str) -> Iterator[str]:
    """Where these webhooks differ in what the chart renders from one value for all of them."""
    timeouts: dict[str, list[str]] = {}
    places: dict[str, list[str]] = {}
    for webhook in webhooks:
        seconds = webhook.get("timeoutSeconds", _TIMEOUT_SECONDS)
        timeouts.setdefault(f"{seconds} s", []).append(webhook["name"])
        if _find_other_place(webhook, namespace) is None:
            places.setdefault(_find_place(webhook), []).append(webhook["name"])
    for what, found in (("timeoutSeconds", timeouts), ("the place that is called", places)):
        if len(found) > 1:
            shown = ", ".join(f"{value} of {' and '.join(of)}" for value, of in found.items())
            yield f"{what} differs, and one for all was expected: {shown}"


def _find_place(webhook: Json) -> str:
    """The Service, or what is before the path of a URL."""
    client = webhook.get("clientConfig") or {}
    if (service := client.get("service")) is not None:
        return f"service {service.get('namespace')}/{service.get('name')}"
    url: str = client.get("url", "")
    return url.removesuffix(_PATHS[webhook["name"]])


def _list_rules(raw: Json) -> Iterator[Rule]:
    """A rule that leaves out versions or scopes of ours is none of ours."""
    if {"v1", "*"}.isdisjoint(raw.get("apiVersions") or ()) or raw.get("scope") == "Cluster":
        return
    for group in raw.get("apiGroups") or ():
        for resource in raw.get("resources") or ():
            yield group, resource, frozenset(raw.get("operations") or ())


def _find_other_place(webhook: Json, namespace: str) -> str | None:
    client, path = webhook.get("clientConfig") or {}, _PATHS[webhook["name"]]
    if (service := client.get("service")) is None:
        url = client.get("url", "")
        if _ORIGIN.fullmatch(url.removesuffix(path)) and url.endswith(path):
            return None
        return f"it calls {url}, and https://HOST:PORT{path} was expected"
    place, port = f"{service.get('namespace')}/{service.get('name')}", service.get("port", 443)
    found = f"{place}:{port}{service.get('path', '')}"
    wanted = f"{namespace}/{NAME}:443{path}"
    return None if found == wanted else f"it calls {found}, and {wanted} was expected"


def _digest(expression: str) -> str:
    text = "".join(expression.split())
    return hashlib.sha256(text.encode()).hexdigest()[:16]
