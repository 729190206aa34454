"""`python -m tools.workload_kind_schemas` prints the schemas of other projects' kinds, along the
paths of `gpushare.workload_kinds` alone, from the CRDs in the projects' Go modules."""

import json
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from devcluster.toolchain import KUEUE, find_source
from gpushare.webhook.pod_template import DEFAULTED
from gpushare.workload_kinds import EACH, WORKLOAD_KINDS, PodsPlace, PodsShape, WorkloadKind

Json = dict[str, Any]
ROOT = Path(__file__).parents[1]
FILE = ROOT / "tests/kit/values/workload-kind-schemas.json"
LABELLED = ("labels", "annotations")
_POD_SPEC = {
    "type": "object",
    "properties": {
        "containers": {"type": "array"},
        "nodeSelector": {"type": "object"},
        "affinity": {"type": "object"},
        "tolerations": {"type": "array"},
        "schedulerName": {"type": "string"},
    },
}
_POD_TEMPLATE = {"type": "object", "properties": {"spec": _POD_SPEC}}
_STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(r"^\s+\w+\s+(\S+)\s+`json:\"(\w+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Source:
    """A project's Go module, and where in it the kinds are."""

    module: str
    version: str
    files: str
    """Glob of CRDs; or a file of Go types, with the root type after a colon."""


SOURCES = (
    Source("sigs.k8s.io/jobset", "v0.11.1", "config/components/crd/bases/*.yaml"),
    Source("sigs.k8s.io/lws", "v0.8.0", "config/crd/bases/*.yaml"),
    Source("github.com/ray-project/kuberay/ray-operator", "v1.6.1", "config/crd/bases/*.yaml"),
    Source("github.com/kubeflow/trainer/v2", "v2.2.0", "manifests/base/crds/*_trainjobs.yaml"),
    Source("github.com/kubeflow/training-operator", "v1.9.3", "manifests/base/crds/*jobs.yaml"),
    Source("github.com/kubeflow/mpi-operator", "v0.8.0", "manifests/base/kubeflow.org_*.yaml"),
    Source("github.com/kserve/kserve", "v0.19.0", "config/crd/full/*_inferenceservices.yaml"),
    # The module with Volcano's CRDs can't be had, that with its types can.
    Source("volcano.sh/apis", "v1.14.0", "pkg/apis/batch/v1alpha1/job.go:Job"),
    Source("github.com/argoproj/argo-workflows/v4", "v4.0.5", "manifests/base/crds/full/*.yaml"),
)


def find_spec(place: PodsPlace) -> tuple[str, ...]:
    """Find the path of the pods' spec."""
    is_template = place.shape is PodsShape.POD_TEMPLATE
    return (*place.path, "spec") if is_template else place.path


def list_paths(place: PodsPlace) -> Iterator[tuple[str, ...]]:
    """List all paths that are read because of a place."""
    spec = find_spec(place)
    yield place.path
    if place.shape is not PodsShape.OPAQUE:
        yield from ((*spec, field) for field in ("containers", *DEFAULTED))
    yield from ((*spec, *path, "resources") for path in place.containers)
    yield from place.replicas
    yield from ((*path, field) for path in place.metadata for field in LABELLED)
    if place.defaults:
        yield from ((*place.defaults, field) for field in DEFAULTED)


def step(schema: Mapping[str, Any], segment: str) -> Any:
    """Return the schema one segment below; None where there is none."""
    if segment == EACH:
        return schema.get("items") or schema.get("additionalProperties")
    return (schema.get("properties") or {}).get(segment)


def prune(schema: Mapping[str, Any], paths: Iterable[Sequence[str]]) -> Json:
    """Keep of a schema its types along `paths`, as far as they exist."""
    kept: Json = {key: schema[key] for key in ("type",) if key in schema}
    below: defaultdict[str, list[Sequence[str]]] = defaultdict(list)
    for path in paths:
        if path:
            below[path[0]].append(path[1:])
    for segment, rest in sorted(below.items()):
        if not isinstance(child := step(schema, segment), dict):
            continue
        if segment != EACH:
            kept.setdefault("properties", {})[segment] = prune(child, rest)
        else:
            kept["items" if "items" in schema else "additionalProperties"] = prune(child, rest)
    return kept


def read_schemas() -> Json:
    """Read the schemas from the modules. Raises `ToolchainError`."""
    found: defaultdict[str, Json] = defaultdict(dict)
    kinds = {each.key: each for each in WORKLOAD_KINDS if not each.is_built_in}
    for source in SOURCES:
        for key, version, schema in _read_source(source):
            if (kind := kinds.get(key)) is None:
                continue
            paths = [path for place in kind.templates for path in list_paths(place)]
            found[key][version] = {
                "module": source.module,
                "version": source.version,
                "schema": prune(schema, paths),
            }
    return dict(sorted(found.items()))


def _read_source(source: Source) -> Iterator[tuple[str, str, Json]]:
    # A version of its own is independent of what Kueue requires.
    folder = find_source(os.environ, KUEUE, f"{source.module}@{source.version}")
    files, _, root = source.files.partition(":")
    for file in sorted(folder.glob(files)):
        if root:
            structs = dict(_STRUCT.findall(file.read_text()))
            kind = next(each for each in WORKLOAD_KINDS if each.group == "batch.volcano.sh")
            yield kind.key, file.parent.name, _build_schema(root, structs, ())
            continue
        for found in yaml.load_all(file.read_text(), yaml.CSafeLoader):
            if found and found.get("kind") == "CustomResourceDefinition":
                for version in found["spec"]["versions"]:
                    schema = version["schema"]["openAPIV3Schema"]
                    yield found["metadata"]["name"], version["name"], schema


def _build_schema(go_type: str, structs: Mapping[str, str], above: tuple[str, ...]) -> Json:
    """Build the schema of a type of Go, of which a file has these structs."""
    go_type = go_type.removeprefix("*")
    if go_type == "v1.PodTemplateSpec":
        return _POD_TEMPLATE
    if go_type.startswith("[]"):
        return {"type": "array", "items": _build_schema(go_type[2:], structs, above)}
    if go_type in structs and go_type not in above:
        fields = _FIELD.findall(structs[go_type])
        below = (*above, go_type)
        properties = {name: _build_schema(of, structs, below) for of, name in fields}
        return {"type": "object", "properties": properties}
    return {"type": {"int32": "integer", "string": "string"}.get(go_type, "object")}


def find_missing(kind: WorkloadKind, schema: Mapping[str, Any]) -> list[str]:
    """List the paths of a kind that its schema lacks, or has with another type than is read."""
    missing = []
    for place in kind.templates:
        spec = find_spec(place)
        wanted = [(place.path, "")]
        if place.shape is not PodsShape.OPAQUE:
            wanted += [((*spec, "nodeSelector"), "object"), ((*spec, "tolerations"), "array")]
            # The steps of a workflow have no list of containers.
            wanted += [] if place.containers else [((*spec, "containers"), "array")]
        wanted += [((*spec, *path, "resources"), "object") for path in place.containers]
        wanted += [(path, "integer") for path in place.replicas]
        missing += [".".join(path) for path, of in wanted if not _has(schema, path, of)]
        for above, fields in (
            *((path, LABELLED) for path in place.metadata if path != ("metadata",)),
            *([(place.defaults, DEFAULTED)] if place.defaults else []),
        ):
            if not any(_has(schema, (*above, field), "") for field in fields):
                missing.append(".".join(above))
    return missing


def _has(schema: Any, path: Sequence[str], of: str) -> bool:
    for segment in path:
        schema = step(schema, segment) if isinstance(schema, dict) else None
    return isinstance(schema, dict) and (not of or schema.get("type") == of)


def format_schemas(schemas: Json) -> str:
    """Build the text of the file: a line for each kind."""
    lines = [f"{json.dumps(key)}: {json.dumps(found)}" for key, found in schemas.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    print(format_schemas(read_schemas()), end="")
