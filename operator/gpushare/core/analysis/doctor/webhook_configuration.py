"""The webhook's configuration against the chart's, whatever values that has."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from gpushare import names
from gpushare.core.analysis.doctor.chart import (
    OTHER_PODS,
    PODS,
    WEBHOOK,
    read_webhooks,
)
from gpushare.core.analysis.doctor.differences import find_differences
from gpushare.core.analysis.finding import Code, Finding, Unseen, find, skip

ABOUT = f"webhook configuration {WEBHOOK}"
_REMEDY = "run helm upgrade with the release's values: the chart writes it anew"
_URL = re.compile(r"(https://[^/?#]+)/mutate-pods")
"""What the chart's webhook.url may make of it."""
_NAMESPACE = "kubernetes.io/metadata.name"
Json = Mapping[str, Any]


def judge_configuration(found: Json | Unseen | None, namespace: str) -> Iterator[Finding]:
    """The MutatingWebhookConfiguration (None: it is not there) of an operator in `namespace`."""
    if isinstance(found, Unseen):
        yield skip(ABOUT, found)
        return
    webhooks = {each["name"]: each for each in (found or {}).get("webhooks") or ()}
    expected = read_webhooks()
    if missing := sorted(expected.keys() - webhooks.keys()):
        told = "it is not in the cluster" if found is None else f"it lacks {', '.join(missing)}"
        yield find(Code.WEBHOOK_MISSING, ABOUT, told, _REMEDY)
        return
    _fill_in(expected, webhooks[PODS], namespace)
    changes = [
        f"{name}: {difference}"
        for name, webhook in expected.items()
        for difference in find_differences(webhook, webhooks[name])
        # A newer API server may add fields, and the CA is judged by itself.
        if difference.path[0] in webhook and difference.path[-1] != "caBundle"
    ]
    for told in changes:
        yield find(Code.WEBHOOK_CHANGED, ABOUT, told, _REMEDY)
    if not changes:
        told = f"its {len(expected)} webhooks are as the chart makes them, whatever its values"
        yield find(Code.WEBHOOK_CONFIGURED, ABOUT, told)


def _fill_in(webhooks: Mapping[str, dict[str, Any]], pods: Json, namespace: str) -> None:
    """Give the chart's `webhooks` the values of this installation, which the one for `pods` shows:
    one value makes all of them."""
    url = (pods.get("clientConfig") or {}).get("url")
    for webhook in webhooks.values():
        webhook["timeoutSeconds"] = pods.get("timeoutSeconds")
        service = webhook["clientConfig"]["service"]
        service["namespace"] = namespace
        if url is not None:
            origin = found[1] if (found := _URL.fullmatch(url)) else "https://HOST:PORT"
            webhook["clientConfig"] = {"url": f"{origin}{service['path']}"}
        exempt, *_ = webhook["namespaceSelector"]["matchExpressions"]
        exempt["values"] = _find_exempt(pods, namespace)
    if pods.get("failurePolicy") == "Fail":
        webhooks[PODS]["failurePolicy"], webhooks[OTHER_PODS]["failurePolicy"] = "Fail", "Ignore"
        for name in (PODS, OTHER_PODS):
            *_, policy = webhooks[name]["namespaceSelector"]["matchExpressions"]
            policy["values"] = [names.FAILURE_POLICY_IGNORE]


def _find_exempt(pods: Json, namespace: str) -> list[str]:
    """The namespaces that are left out, as far as the chart may leave them out: its own, and that
    of teardowns' Jobs, which has any name."""
    least = [*dict.fromkeys((names.EXEMPT_NAMESPACE, namespace))]
    for each in (pods.get("namespaceSelector") or {}).get("matchExpressions") or ():
        values = each.get("values") or []
        if each["key"] == _NAMESPACE and set(least) <= set(values) and len(values) <= 3:
            return list(values)
    return least
