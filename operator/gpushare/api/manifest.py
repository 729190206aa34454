"""Checks a pool's manifest by the rules of the CRD, as the API server does."""

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from functools import cache, partial
from typing import Any

import orjson
from pydantic import ValidationError

from gpushare import names
from gpushare.api.crd import build_crd
from gpushare.api.nvidia_plugin import FOLLOWING_LABELS
from gpushare.api.pool import (
    DEFAULT_EDITION,
    EDITION_SCHEDULES,
    EDITIONS_WITH_CONFIG,
    EDITIONS_WITH_PLACEMENT,
    Edition,
    Pool,
    PoolSpec,
)
from gpushare.api.selector import DNS_NAME, LABEL_KEY
from gpushare.api.suggestion import suggest

Json = dict[str, Any]


class ManifestError(ValueError):
    """The API server would reject the GPUSharePool; the message names the field and the cause."""


def parse_manifest(raw: Json, now: datetime) -> Pool:
    """Parse the pool that an apply of `raw` would create at `now`. Raises `ManifestError`.

    The message has the first fault: an unknown field, an invalid value, a broken rule of the CRD.
    """
    name = _read_name(raw)
    if raw.get("apiVersion") != names.API_VERSION:
        raise ManifestError(
            f"{name}: apiVersion must be {names.API_VERSION}, not {raw.get('apiVersion')}"
        )
    schema = _load_schema()
    spec = _drop_nulls(raw.get("spec"))
    if not isinstance(spec, dict):
        raise ManifestError(f"{name}: spec is missing")
    meta = {
        "name": name,
        "uid": "",
        "creationTimestamp": now,
        "generation": 1,
        "annotations": raw["metadata"].get("annotations"),
    }
    try:
        # kubectl too converts YAML's keys, which may be numbers, to text.
        dumped = orjson.dumps(spec, option=orjson.OPT_NON_STR_KEYS)
    except TypeError as error:
        raise ManifestError(f"{name}: spec cannot be encoded as JSON: {error}") from error
    spec = orjson.loads(dumped)
    try:
        # Strictly, as in the API server: text is not converted to a number.
        parsed = PoolSpec.model_validate_json(
            dumped,
            strict=True,
            extra="forbid",
            by_alias=True,
            by_name=False,
        )
        pool = Pool.parse({"metadata": meta}, parsed)
    except ValidationError as error:
        raise ManifestError(f"{name}: {_describe(error)}") from error
    for fault in _find_broken_rules(spec, schema["properties"]["spec"], "spec"):
        raise ManifestError(f"{name}: {fault}")
    return pool


def check_update(old: Pool, new: Pool) -> None:
    """Raise `ManifestError` where an update from `old` to `new` is not allowed."""
    if old.spec.edition is not new.spec.edition:
        schema = _load_schema()["properties"]["spec"]["properties"]["edition"]
        message = schema["x-kubernetes-validations"][0]["message"]
        raise ManifestError(f"{new.name}: spec.edition: {message}")


@cache
def _load_schema() -> Json:
    schema: Json = build_crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def _read_name(raw: Json) -> str:
    meta = raw.get("metadata")
    name = meta.get("name") if isinstance(meta, dict) else None
    if not isinstance(name, str) or not name:
        raise ManifestError(f"{names.KIND} has no metadata.name")
    if not re.fullmatch(DNS_NAME, name):
        raise ManifestError(f"{name}: metadata.name must be a DNS name in lower case")
    if len(name) > 63:
        rule = _load_schema()["x-kubernetes-validations"][0]
        raise ManifestError(f"{name}: metadata.name: {rule['message']}")
    return name


def _drop_nulls(value: Any) -> Any:
    """Remove nulls, which the API server drops too."""
    if isinstance(value, dict):
        return {key: _drop_nulls(each) for key, each in value.items() if each is not None}
    if isinstance(value, list):
        return [_drop_nulls(each) for each in value]
    return value


def _describe(error: ValidationError) -> str:
    """Describe the first fault that pydantic finds; unknown fields go first."""
    faults = error.errors()
    fault = next((each for each in faults if each["type"] == "extra_forbidden"), faults[0])
    where, schema, *parts = "spec", _load_schema()["properties"]["spec"], *fault["loc"]
    for part in parts:
        known = schema.get("properties", {})
        if isinstance(part, int):
            where, schema = f"{where}[{part}]", schema["items"]
        elif part in known:
            where, schema = f"{where}.{part}", known[part]
        elif fault["type"] == "extra_forbidden":
            return f"unknown field {where}.{part}{suggest(part, known)}"
        elif "additionalProperties" in schema:
            where, schema = f"{where}.{part}", schema["additionalProperties"]
        # Any other part is pydantic's name for one of several types.
    if fault["type"] == "value_error":
        return f"{where}: {fault['ctx']['error']}"
    given = "" if fault["type"] == "missing" else f", but it is {fault['input']!r}"
    if schema.get("x-kubernetes-int-or-string"):
        # pydantic tells of each type alone.
        return f"{where}: must be a number of at least 1, or a percentage from 1% to 100%{given}"
    return f"{where}: {fault['msg']}{given}"


def _find_broken_rules(value: Any, schema: Json, path: str) -> Iterator[str]:
    for rule in schema.get("x-kubernetes-validations", ()):
        if "oldSelf" not in rule["rule"] and not find_check(rule["message"])(value):
            yield f"{path}: {rule['message']}"
    if isinstance(value, list):
        for index, each in enumerate(value):
            yield from _find_broken_rules(each, schema["items"], f"{path}[{index}]")
    elif isinstance(value, dict):
        known = schema.get("properties", {})
        for key in sorted(value.keys() & known.keys()):
            yield from _find_broken_rules(value[key], known[key], f"{path}.{key}")


def _has_members(nodes: Json) -> bool:
    selector = nodes.get("selector", {})
    given = selector.get("matchLabels") or selector.get("matchExpressions")
    return bool(nodes.get("names") or given)


def _list_keys(selector: Json) -> set[str]:
    expressions = selector.get("matchExpressions", ())
    return {*selector.get("matchLabels", ()), *(each["key"] for each in expressions)}


def _selects_foreign(selector: Json) -> bool:
    written, group = names.VENDOR_LABELS, f"{names.GROUP}/"
    return not any(key in written or key.startswith(group) for key in _list_keys(selector))


def _has_mode(edition: Edition, spec: Json) -> bool:
    return spec.get("edition") != edition or spec.get("schedule", "") in EDITION_SCHEDULES[edition]


def _is_nvidia(spec: Json) -> bool:
    return spec.get("edition") in EDITIONS_WITH_CONFIG


def _has_label_keys(value: Json) -> bool:
    """Tell whether the keys of a requirement or of labels are valid label keys."""
    keys = [value["key"]] if "operator" in value and "key" in value else [*value]
    return all(re.fullmatch(LABEL_KEY, key) and key.find("/") <= 253 for key in keys)


_CHECKS: Mapping[str, Callable[[Any], bool]] = {
    "placement is supported": lambda spec: (
        "placement" not in spec or spec.get("edition", DEFAULT_EDITION) in EDITIONS_WITH_PLACEMENT
    ),
    "must select members": _has_members,
    "min must not be": lambda size: "max" not in size or size.get("min", 0) <= size["max"],
    "size.min must not be": lambda nodes: (
        "selector" in nodes or len(nodes.get("names", ())) >= nodes.get("size", {}).get("min", 0)
    ),
    "demand requires": lambda spec: "demand" not in spec or "size" in spec.get("nodes", {}),
    "must not use a label": _selects_foreign,
    "nodes.selector must not use": lambda spec: (
        not _is_nvidia(spec)
        or _list_keys(spec.get("nodes", {}).get("selector", {})).isdisjoint(FOLLOWING_LABELS)
    ),
    "label keys must be": _has_label_keys,
    "values must be set": lambda requirement: (
        (requirement["operator"] in ("In", "NotIn")) is bool(requirement.get("values"))
    ),
    "operator must be Exists": lambda each: "key" in each or each.get("operator") == "Exists",
    "value must not be set": lambda each: (
        "value" not in each or each.get("operator", "Equal") == "Equal"
    ),
    "effect must be NoExecute": lambda each: (
        "tolerationSeconds" not in each or each.get("effect") == "NoExecute"
    ),
    **{
        f"the {edition} edition supports": partial(_has_mode, edition)
        for edition in EDITION_SCHEDULES
    },
    "the NVIDIA edition requires": lambda spec: (
        ("nvidia" in spec, "schedule" in spec) == (_is_nvidia(spec), not _is_nvidia(spec))
    ),
    "the NVIDIA edition supports": lambda spec: (
        not _is_nvidia(spec)
        or (
            spec.get("deletionPolicy", "Retain") == "Retain"
            and spec.get("devicePlugin", {}).get("restart", "OnIsolationChange")
            == "OnIsolationChange"
        )
    ),
}
"""Checks for the CRD's rules, whose CEL can't be evaluated here, by the begin of the rule's
message."""


def find_check(sentence: str) -> Callable[[Any], bool]:
    """Find the check for the rule with this message."""
    (check,) = (check for begin, check in _CHECKS.items() if sentence.startswith(begin))
    return check
