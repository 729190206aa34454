"""The CustomResourceDefinition: whether it is the one that this program was made with."""

from collections.abc import Iterator, Mapping
from typing import Any

from gpushare import names
from gpushare.core.analysis.doctor.finding import Code, Finding, Unseen, find, skip
from gpushare.core.deviceplugin.findings import list_few

ABOUT = f"crd {names.PLURAL}.{names.GROUP}"
UPGRADE = (
    "apply crds/gpusharepools.yaml of the version that runs, or upgrade with crds.install=true"
)
_UNDER = ("items", "additionalProperties")
Json = Mapping[str, Any]


def judge_crd(found: Json | Unseen | None, expected: Json) -> Finding:
    """`found` (None: it is not there) against the CRD `expected`, each as the API has it."""
    if isinstance(found, Unseen):
        return skip(ABOUT, found)
    if found is None:
        return find(Code.CRD_MISSING, ABOUT, "it is not in the cluster", UPGRADE)
    version = _find_version(found)
    if version is None or not version.get("served") or not version.get("storage"):
        told = f"it does not serve and store version {names.VERSION}"
        return find(Code.CRD_DIFFERS, ABOUT, told, UPGRADE)
    ours = _find_version(expected)
    assert ours is not None
    missing, other, unknown = _compare(ours, version)
    if missing or other:
        told = "; ".join(
            f"{what} {list_few(paths)}"
            for what, paths in (("it lacks", missing), ("it has otherwise", other))
            if paths
        )
        return find(Code.CRD_DIFFERS, ABOUT, told, UPGRADE)
    if unknown:
        told = f"it has {list_few(unknown)}, which this program does not know"
        return find(Code.CRD_NEWER, ABOUT, told, "use the program of the version that runs")
    return find(Code.CRD_CURRENT, ABOUT, f"it serves {names.VERSION} with this program's schema")


def _find_version(crd: Json) -> Json | None:
    versions = (crd.get("spec") or {}).get("versions") or ()
    return next((each for each in versions if each.get("name") == names.VERSION), None)


def _compare(ours: Json, theirs: Json) -> tuple[list[str], list[str], list[str]]:
    """Paths of fields that are missing, are otherwise, and are unknown."""
    missing: list[str] = []
    other: list[str] = []
    unknown: list[str] = []
    for path, mine, its in _walk(_find_schema(ours), _find_schema(theirs), ""):
        group = missing if its is None else unknown if mine is None else other
        group.append(path)
    if "status" not in (theirs.get("subresources") or {}):
        missing.append("the subresource status")
    return missing, other, unknown


def _find_schema(version: Json) -> Json:
    return (version.get("schema") or {}).get("openAPIV3Schema") or {}


def _walk(ours: Json, theirs: Json, path: str) -> Iterator[tuple[str, Json | None, Json | None]]:
    """Each field in which two schemas differ, with what each has of it."""
    if _strip(ours) != _strip(theirs):
        yield path or "its top", ours, theirs
    mine, its = ours.get("properties") or {}, theirs.get("properties") or {}
    for name in sorted({*mine, *its}):
        place = f"{path}.{name}".lstrip(".")
        if name in mine and name in its:
            yield from _walk(mine[name], its[name], place)
        else:
            yield place, mine.get(name), its.get(name)
    for under in _UNDER:
        if isinstance(ours.get(under), dict) and isinstance(theirs.get(under), dict):
            yield from _walk(ours[under], theirs[under], f"{path}[]")


def _strip(schema: Json) -> dict[str, Any]:
    """What a schema demands, without its parts and words."""
    left_out = ("properties", "description")
    demands = {key: value for key, value in schema.items() if key not in left_out}
    for under in _UNDER:
        if isinstance(demands.get(under), dict):
            # That it is there; what it is like is compared by itself.
            demands[under] = True
    return demands
