"""Finds the field managers of an object's parts, in its `metadata.managedFields`."""

from collections.abc import Mapping
from typing import Any

_APPLICATIONS: Mapping[str, tuple[str, str]] = {
    "argocd": ("annotations", "argocd.argoproj.io/tracking-id"),
    "kustomize-controller": ("labels", "kustomize.toolkit.fluxcd.io/name"),
    "helm-controller": ("labels", "helm.toolkit.fluxcd.io/name"),
    "helm": ("annotations", "meta.helm.sh/release-name"),
}
"""Places of the name of the application that wrote an object, by the prefix of a deployment tool's
field manager: one manager writes for all applications."""


def find_writers(meta: dict[str, Any]) -> dict[str, str]:
    """Find the last writer of each field of the spec; of several owners the latest."""
    writers: dict[str, tuple[str, str]] = {}
    for entry in meta.get("managedFields") or ():
        written = str(entry.get("time") or ""), entry.get("manager") or ""
        for key in (entry.get("fieldsV1") or {}).get("f:spec") or ():
            field = key.removeprefix("f:")
            writers[field] = max(writers.get(field, written), written)
    return {field: _name_writer(meta, manager) for field, (_, manager) in writers.items()}


def _name_writer(meta: dict[str, Any], manager: str) -> str:
    for tool, (where, key) in _APPLICATIONS.items():
        if manager.startswith(tool) and (mark := (meta.get(where) or {}).get(key)):
            return f"{manager} ({mark.partition(':')[0]})"
    return manager


def find_manager(meta: dict[str, Any], annotation: str) -> str:
    """Find the field manager that owns the annotation; empty where none is recorded."""
    for entry in meta.get("managedFields") or ():
        owned = (entry.get("fieldsV1") or {}).get("f:metadata") or {}
        if f"f:{annotation}" in (owned.get("f:annotations") or {}):
            return entry.get("manager") or ""
    return ""


def find_owners(meta: dict[str, Any], items: str, field: str) -> list[str]:
    """Find the field managers that own `field` of any item of the list `items`, by name."""
    owners = set()
    for entry in meta.get("managedFields") or ():
        owned = (entry.get("fieldsV1") or {}).get(f"f:{items}") or {}
        if any(f"f:{field}" in fields for fields in owned.values() if isinstance(fields, dict)):
            owners.add(entry.get("manager") or "")
    return sorted(filter(None, owners))
