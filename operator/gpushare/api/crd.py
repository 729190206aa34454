"""Generates the CustomResourceDefinitions from the models.

`python -m gpushare.api.crd` prints that of the pools, and with the plural of a kind that of the
kind; `make crds` writes them to `crds/`.
"""

import sys
from collections.abc import Sequence
from typing import Any

import yaml
from pydantic import BaseModel

from gpushare import names
from gpushare.api.admission.table import AdmissionTableSpec
from gpushare.api.pool import PoolSpec
from gpushare.api.status import PoolStatus

_COLUMNS = (
    ("Schedule", "string", ".spec.schedule"),
    ("Placement", "string", ".spec.placement"),
    ("Nodes", "string", ".status.nodes.summary"),
    ("Ready", "integer", ".status.nodes.ready"),
    ("Updating", "integer", ".status.nodes.updating"),
    ("GPU-Mem", "string", ".status.capacity.summary"),
    ("Mem-Since", "date", ".status.capacity.observedAt"),
    ("Status", "string", '.status.conditions[?(@.type=="Ready")].reason'),
    ("Age", "date", ".metadata.creationTimestamp"),
)
_WIDE_COLUMNS = (
    ("Edition", "string", ".spec.edition"),
    ("Reconcile", "string", ".spec.reconcile"),
    ("Window", "string", ".status.window.summary"),
    ("Config", "string", ".spec.nvidia.config"),
)
"""Further columns of `-o wide`."""
_TABLE_COLUMNS = (
    ("Pools", "integer", ".spec.count"),
    ("Omitted", "integer", ".spec.omitted"),
    ("Age", "date", ".metadata.creationTimestamp"),
)

_UNOBSERVED = -1
"""Generation in the status of a new pool. Flux and others wait by kstatus, for which an object
without a status is complete, and one whose generation is not yet observed in progress."""

_KEPT = frozenset(
    {
        "type", "format", "description", "enum", "default", "required",
        "minimum", "maximum", "minLength", "maxLength", "pattern", "maxItems", "maxProperties",
        "x-kubernetes-int-or-string",
        "x-kubernetes-validations", "x-kubernetes-map-type", "x-kubernetes-list-type",
        "x-kubernetes-list-map-keys",
    }
)  # fmt: skip


def build_crd() -> dict[str, Any]:
    """Build the CustomResourceDefinition of the pools as an object literal."""
    version = _build_version(_COLUMNS, _pool_schema(), subresources={"status": {}})
    version["additionalPrinterColumns"] += [
        {**column, "priority": 1} for column in _build_columns(_WIDE_COLUMNS)
    ]
    return _build(names.KIND, names.PLURAL, version, shortNames=["gsp"], categories=["gpu"])


def build_table_crd() -> dict[str, Any]:
    """Build the CustomResourceDefinition of the admission table as an object literal."""
    version = _build_version(_TABLE_COLUMNS, _table_schema())
    return _build(names.TABLE_KIND, names.TABLE_PLURAL, version)


def _build(kind: str, plural: str, version: dict[str, Any], **more: Any) -> dict[str, Any]:
    called = {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{names.GROUP}"},
        "spec": {
            "group": names.GROUP,
            "scope": "Cluster",
            "names": {**called, **more},
            "versions": [version],
        },
    }


def _build_version(
    columns: Sequence[tuple[str, str, str]], schema: dict[str, Any], **more: Any
) -> dict[str, Any]:
    return {
        "name": names.VERSION,
        "served": True,
        "storage": True,
        **more,
        "additionalPrinterColumns": _build_columns(columns),
        "schema": {"openAPIV3Schema": schema},
    }


def _build_columns(columns: Sequence[tuple[str, str, str]]) -> list[dict[str, Any]]:
    return [{"name": name, "type": kind, "jsonPath": path} for name, kind, path in columns]


def _pool_schema() -> dict[str, Any]:
    return {
        "type": "object",
        "description": "GPUSharePool sets one GPU sharing mode on a group of nodes.",
        "required": ["spec"],
        "x-kubernetes-validations": [
            {
                "rule": "size(self.metadata.name) <= 63",
                "message": "must have at most 63 characters, as it becomes the value of the label "
                f"{names.LABEL_POOL}",
            }
        ],
        "properties": {
            "apiVersion": {"type": "string", "description": "API version of the object."},
            "kind": {"type": "string", "description": "GPUSharePool."},
            "metadata": {"type": "object"},
            "spec": _structural_model(PoolSpec),
            "status": {
                # Unknown counts must not be shown as 0.
                **_without_defaults(_structural_model(PoolStatus, mode="serialization")),
                "default": {"observedGeneration": _UNOBSERVED},
            },
        },
    }


def _table_schema() -> dict[str, Any]:
    return {
        "type": "object",
        "description": "GPUShareAdmissionTable tells the API server which pools take which pods. "
        f"The controller writes the object {names.TABLE_NAME}; no other is read.",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string", "description": "API version of the object."},
            "kind": {"type": "string", "description": "GPUShareAdmissionTable."},
            "metadata": {"type": "object"},
            "spec": _structural_model(AdmissionTableSpec),
        },
    }


def _structural_model(model: type[BaseModel], mode: Any = "validation") -> dict[str, Any]:
    schema = model.model_json_schema(by_alias=True, mode=mode)
    return _structural(schema, schema.get("$defs", {}))


def _structural(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """Turn JSON Schema into a Kubernetes structural schema: no references, no unions with null.

    See "Specifying a structural schema" in the Kubernetes documentation of CRDs.
    """
    if "$ref" in schema:
        target = definitions[schema["$ref"].removeprefix("#/$defs/")]
        schema = {**target, **{key: value for key, value in schema.items() if key != "$ref"}}
    if schema.get("x-kubernetes-int-or-string"):
        # The one union that structural schemas allow, with the constraints of both sides.
        for option in schema.pop("anyOf"):
            schema |= {key: value for key, value in option.items() if key != "type"}
    if "anyOf" in schema:
        choice = next(option for option in schema["anyOf"] if option.get("type") != "null")
        rest = {key: value for key, value in schema.items() if key not in ("anyOf", "default")}
        return _structural({**choice, **rest}, definitions)
    result = {key: value for key, value in schema.items() if key in _KEPT}
    if "default" in result:
        result["default"] = _prune(result["default"])
    if not result.get("default", True) and result.get("default") != 0:
        # An empty default would be written into every stored object.
        del result["default"]
    if "properties" in schema:
        result["properties"] = {
            name: _structural(part, definitions) for name, part in schema["properties"].items()
        }
    if isinstance(schema.get("items"), dict):
        result["items"] = _without_defaults(_structural(schema["items"], definitions))
    if isinstance(schema.get("additionalProperties"), dict):
        result["additionalProperties"] = _structural(schema["additionalProperties"], definitions)
    return result


def _without_defaults(item: dict[str, Any]) -> dict[str, Any]:
    """Remove the defaults of a list's items. The API server would write them into stored lists,
    which GitOps tools compare as a whole: they would show the pool as out of sync for ever.
    """
    result = {key: value for key, value in item.items() if key != "default"}
    if "properties" in item:
        result["properties"] = {
            name: _without_defaults(part) for name, part in item["properties"].items()
        }
    return result


def _prune(default: Any) -> Any:
    """Remove null, and empty lists and maps."""
    if not isinstance(default, dict):
        return default
    pruned = {key: _prune(value) for key, value in default.items()}
    return {key: value for key, value in pruned.items() if value not in (None, {}, [])}


_SOURCES = {
    names.PLURAL: ("pool.py", build_crd),
    names.TABLE_PLURAL: ("admission/table.py", build_table_crd),
}


if __name__ == "__main__":
    source, build = _SOURCES[sys.argv[1] if len(sys.argv) > 1 else names.PLURAL]
    print(f"# Generated by `make crds` from operator/gpushare/api/{source}.")
    print(yaml.safe_dump(build(), sort_keys=False, width=100), end="")
