"""Compares the cluster's CustomResourceDefinition with the one of this program."""

from collections.abc import Mapping
from typing import Any

from gpushare import names
from gpushare.analysis.doctor.differences import find_differences
from gpushare.analysis.finding import Finding, FindingCode, Unseen, report, skip
from gpushare.core.deviceplugin.findings import list_few

ABOUT = f"crd {names.PLURAL}.{names.GROUP}"
UPGRADE = (
    "Apply crds/gpusharepools.yaml of the installed version, or run helm upgrade with "
    "crds.install=true"
)
_PROPERTIES = "properties"
Json = Mapping[str, Any]


def judge_crd(found: Json | Unseen | None, expected: Json) -> Finding:
    """Compare the CRD `found` (None: not in the cluster) with `expected`, in the API's form."""
    if isinstance(found, Unseen):
        return skip(ABOUT, found)
    if found is None:
        return report(FindingCode.CRD_MISSING, ABOUT, "The CRD is not in the cluster", UPGRADE)
    version = _find_version(found)
    if not version.get("served") or not version.get("storage"):
        told = f"The CRD does not serve and store version {names.VERSION}"
        return report(FindingCode.CRD_DIFFERS, ABOUT, told, UPGRADE)
    missing, other, unknown = _compare(_find_version(expected), version)
    differs = {"Fields are missing": missing, "Fields differ": other}
    if told := ". ".join(f"{what}: {list_few(paths)}" for what, paths in differs.items() if paths):
        return report(FindingCode.CRD_DIFFERS, ABOUT, told, UPGRADE)
    if unknown:
        told = f"The CRD has fields unknown to this program: {list_few(unknown)}"
        return report(
            FindingCode.CRD_NEWER, ABOUT, told, "Use the program of the installed version"
        )
    told = f"The CRD serves {names.VERSION} with this program's schema"
    return report(FindingCode.CRD_CURRENT, ABOUT, told)


def _find_version(crd: Json) -> Json:
    versions = (crd.get("spec") or {}).get("versions") or ()
    return next((each for each in versions if each.get("name") == names.VERSION), {})


def _compare(ours: Json, theirs: Json) -> tuple[list[str], list[str], list[str]]:
    """Return the paths of what is missing, of what is different, and of unknown fields."""
    missing: list[str] = []
    other: list[str] = []
    unknown: list[str] = []
    for difference in find_differences(_read_compared(ours), _read_compared(theirs)):
        path = difference.path
        if path[-1] != "description":
            is_new = difference.expected is None and path[-2:-1] == (_PROPERTIES,)
            paths = unknown if is_new else missing if difference.found is None else other
            field = ".".join(key for key in path if key != _PROPERTIES)
            paths.append(field.replace(".items", "[]"))
    return missing, other, unknown


def _read_compared(version: Json) -> Json:
    """Return the parts of a version that decide what an API server serves and keeps."""
    schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    return {"subresources": version.get("subresources") or {}, **schema}
