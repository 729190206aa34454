"""Lists the kinds of objects that create pods, and where in an object its pods are described.

A row is found by group and resource, as in a URL of the API. The chart's rules of the webhook, and
all commands, follow from the same rows; a user adds rows by the chart's `webhook.workloadKinds`.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from itertools import islice
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    StringConstraints,
    model_validator,
)
from pydantic.alias_generators import to_camel

EACH = "[*]"
"""Segment of a path that stands for each item of a list, or each value of a map."""
_FIELD = r"[A-Za-z][A-Za-z0-9_-]{0,62}(\[\*\])*"
_PATH = re.compile(rf"{_FIELD}(\.{_FIELD})*", re.ASCII)
_SEGMENT = re.compile(r"\[\*\]|[^.\[\]]+")
_LONGEST_PATH = 253
_OWN_SUFFIXES = (".k8s.io", ".kubernetes.io")
"""Ends of groups that are Kubernetes' own (`api-approved.kubernetes.io` in its documentation on
CustomResourceDefinitions). By one of them, heartbeats (`leases.coordination.k8s.io`) would be sent
to the webhook. `x-k8s.io` is open to all its projects."""
_GROUP = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
MAX_KINDS, MAX_PLACES = 100, 20
"""Limits of what a user may add: kinds, places of each, and paths of each of their fields."""
_MAX_ITEMS = 1000
"""Items of lists, or values of maps, that are looked at for one segment of a path: an object may
have a million of them, and the webhook answers nobody else in the meantime."""

Json = Mapping[str, Any]
Keys = tuple[str | int, ...]
"""Where a value is: its path, with keys of maps and indices of lists in place of `EACH`."""


def _parse_path(text: Any) -> Any:
    if not isinstance(text, str):
        return text
    if len(text) > _LONGEST_PATH or not _PATH.fullmatch(text):
        raise ValueError(
            f"{text[:_LONGEST_PATH]!r} is no path of at most {_LONGEST_PATH} characters, such as "
            "spec.template or spec.workers[*].template"
        )
    return tuple(_SEGMENT.findall(text))


def _write_path(path: Sequence[str]) -> str:
    return ".".join(path).replace(f".{EACH}", EACH)


FieldPath = Annotated[
    tuple[str, ...], BeforeValidator(_parse_path), PlainSerializer(_write_path, return_type=str)
]
"""Path of fields, such as `spec.workers[*].template`, in segments."""
FieldPaths = Annotated[tuple[FieldPath, ...], Field(max_length=MAX_PLACES)]


class PodsShape(StrEnum):
    """What is found at a place."""

    POD_TEMPLATE = "PodTemplate"
    POD_SPEC = "PodSpec"
    OPAQUE = "Opaque"
    """It decides about the pods, and can't be read: a reference to another object, or a patch."""


class _Row(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True
    )


class PodsPlace(_Row):
    """A place in an object that describes pods.

    In `replicas`, `metadata` and `defaults`, which are paths from the object's root, each `[*]` is
    the one of `path` in the same position.
    """

    path: FieldPath
    shape: PodsShape = PodsShape.POD_TEMPLATE
    containers: FieldPaths = ()
    """Further containers, below the pods' spec."""
    replicas: FieldPaths = ()
    """Numbers whose product is the number of pods; 1 for each that is not set."""
    metadata: FieldPaths = ()
    """Objects whose `labels` and `annotations` the pods get; the last one counts, and before all
    of them the template's own."""
    defaults: FieldPath | None = None
    """Object with the nodeSelector, affinity, tolerations and schedulerName of pods without."""

    @model_validator(mode="after")
    def _binds_each(self) -> Self:
        for path in (*self.replicas, *self.metadata, *([self.defaults] if self.defaults else [])):
            if path.count(EACH) > self.path.count(EACH):
                raise ValueError(
                    f"{_write_path(path)} has more {EACH} than path {_write_path(self.path)}"
                )
        return self


class WorkloadKind(_Row):
    """A kind of objects that create pods."""

    group: Annotated[str, StringConstraints(pattern=_GROUP, max_length=253)]
    resource: Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")]
    kind: Annotated[str, StringConstraints(pattern=r"^[A-Za-z]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?$")]
    templates: Annotated[tuple[PodsPlace, ...], Field(max_length=MAX_PLACES)]
    """Without any, nothing is said of the kind."""
    scheduler_name: Annotated[str, StringConstraints(max_length=253)] = ""
    """Scheduler of pods that name none; empty for Kubernetes' default."""

    @property
    def key(self) -> str:
        return f"{self.resource}.{self.group}"

    @property
    def is_built_in(self) -> bool:
        """Whether it is of Kubernetes itself, whose API server has checked its pods."""
        return "." not in self.group or self.group.endswith(_OWN_SUFFIXES)


def check_added(added: tuple[WorkloadKind, ...]) -> tuple[WorkloadKind, ...]:
    """Check the kinds that a user adds. Raises ValueError, which names the kind."""
    seen: set[str] = set()
    for each in added:
        if each.is_built_in:
            raise ValueError(f"{each.key}: Kubernetes' own kinds can't be changed")
        if each.key in seen:
            raise ValueError(f"{each.key} is listed twice. Put its templates into one entry")
        seen.add(each.key)
    return added


AddedKinds = Annotated[
    tuple[WorkloadKind, ...], Field(max_length=MAX_KINDS), AfterValidator(check_added)
]
"""Kinds that a user adds; one replaces the row of this table with the same group and resource."""


def _kind(group: str, resource: str, kind: str, *templates: Json, **more: str) -> WorkloadKind:
    return WorkloadKind(
        group=group,
        resource=resource,
        kind=kind,
        templates=tuple(PodsPlace.model_validate(each) for each in templates),
        **more,
    )


def _ray(spec: str) -> tuple[Json, Json]:
    """Return the places of a RayCluster's spec."""
    workers = f"{spec}.workerGroupSpecs[*]"
    return (
        {"path": f"{spec}.headGroupSpec.template"},
        {
            "path": f"{workers}.template",
            "replicas": [f"{workers}.replicas", f"{workers}.numOfHosts"],
        },
    )


def _train(field: str) -> Json:
    """Return the place of a job of the training operator."""
    return {"path": f"spec.{field}[*].template", "replicas": [f"spec.{field}[*].replicas"]}


def _serve(component: str, *containers: str) -> Json:
    """Return the place of a component of an InferenceService, which is a pod spec with more."""
    return {
        "path": component,
        "shape": PodsShape.POD_SPEC,
        "containers": containers,
        "replicas": [f"{component}.minReplicas"],
        "metadata": ["metadata", component],
    }


def _steps(spec: str) -> tuple[Json, ...]:
    """Return the places of an Argo workflow's spec, whose templates are pod specs with more."""
    each = f"{spec}.templates[*]"
    opaque = (
        *(f"{spec}.workflowTemplateRef", f"{spec}.templateDefaults", f"{spec}.podSpecPatch"),
        f"{each}.podSpecPatch",
    )
    return (
        {
            "path": each,
            "shape": PodsShape.POD_SPEC,
            "containers": ("container", "script", "containerSet.containers[*]", "sidecars[*]"),
            "metadata": [f"{spec}.podMetadata", f"{each}.metadata"],
            "defaults": spec,
        },
        *({"path": path, "shape": PodsShape.OPAQUE} for path in opaque),
    )


_TEMPLATE = "spec.template"
_SERVERS = (
    *("model", "huggingface", "lightgbm", "onnx", "paddle", "pmml", "pytorch", "sklearn"),
    *("tensorflow", "triton", "xgboost"),
)
"""Containers of a predictor that are not in its list (PredictorSpec of KServe)."""
_KUBEFLOW, _RAY, _ARGO = "kubeflow.org", "ray.io", "argoproj.io"
_LWS = "spec.leaderWorkerTemplate"
_JOBS = "spec.replicatedJobs[*]"
WORKLOAD_KINDS = (
    _kind("apps", "deployments", "Deployment", {"path": _TEMPLATE, "replicas": ["spec.replicas"]}),
    _kind(
        "apps", "statefulsets", "StatefulSet", {"path": _TEMPLATE, "replicas": ["spec.replicas"]}
    ),
    _kind("apps", "daemonsets", "DaemonSet", {"path": _TEMPLATE}),
    _kind("batch", "jobs", "Job", {"path": _TEMPLATE, "replicas": ["spec.parallelism"]}),
    _kind("batch", "cronjobs", "CronJob", {"path": "spec.jobTemplate.spec.template"}),
    _kind(
        "jobset.x-k8s.io",
        "jobsets",
        "JobSet",
        {
            "path": f"{_JOBS}.template.spec.template",
            "replicas": [f"{_JOBS}.replicas", f"{_JOBS}.template.spec.parallelism"],
        },
    ),
    _kind(
        "leaderworkerset.x-k8s.io",
        "leaderworkersets",
        "LeaderWorkerSet",
        {"path": f"{_LWS}.leaderTemplate", "replicas": ["spec.replicas"]},
        # A leader of its own is one of the group, and counted twice then.
        {"path": f"{_LWS}.workerTemplate", "replicas": ["spec.replicas", f"{_LWS}.size"]},
    ),
    _kind(_RAY, "rayclusters", "RayCluster", *_ray("spec")),
    _kind(
        _RAY,
        "rayjobs",
        "RayJob",
        *_ray("spec.rayClusterSpec"),
        {"path": "spec.submitterPodTemplate"},
    ),
    _kind(_RAY, "rayservices", "RayService", *_ray("spec.rayClusterConfig")),
    _kind(
        "trainer.kubeflow.org",
        "trainjobs",
        "TrainJob",
        {"path": "spec.runtimeRef", "shape": PodsShape.OPAQUE},
    ),
    _kind(_KUBEFLOW, "pytorchjobs", "PyTorchJob", _train("pytorchReplicaSpecs")),
    _kind(_KUBEFLOW, "tfjobs", "TFJob", _train("tfReplicaSpecs")),
    _kind(_KUBEFLOW, "mpijobs", "MPIJob", _train("mpiReplicaSpecs")),
    _kind(_KUBEFLOW, "xgboostjobs", "XGBoostJob", _train("xgbReplicaSpecs")),
    _kind(_KUBEFLOW, "paddlejobs", "PaddleJob", _train("paddleReplicaSpecs")),
    _kind(_KUBEFLOW, "jaxjobs", "JAXJob", _train("jaxReplicaSpecs")),
    _kind(
        "serving.kserve.io",
        "inferenceservices",
        "InferenceService",
        _serve("spec.predictor", *_SERVERS),
        {"path": "spec.predictor.workerSpec", "shape": PodsShape.POD_SPEC},
        _serve("spec.transformer"),
        _serve("spec.explainer", "art"),
    ),
    _kind(
        "batch.volcano.sh",
        "jobs",
        "Job",
        {
            "path": "spec.tasks[*].template",
            "replicas": ["spec.tasks[*].replicas"],
            "defaults": "spec",
        },
        # Its admission webhook, which comes after ours, sets it in the Job.
        scheduler_name="volcano",
    ),
    _kind(_ARGO, "workflows", "Workflow", *_steps("spec")),
    _kind(_ARGO, "cronworkflows", "CronWorkflow", *_steps("spec.workflowSpec")),
)
"""The kinds that are known without any setting."""

POD_OWNERS: Mapping[str, str] = {
    "daemonsets.apps": "DaemonSet",
    **dict.fromkeys(("jobs.batch", "cronjobs.batch", "jobsets.jobset.x-k8s.io"), "Job"),
    **dict.fromkeys(
        (f"{resource}.{_RAY}" for resource in ("rayclusters", "rayjobs", "rayservices")),
        "RayCluster",
    ),
    **{each.key: each.kind for each in WORKLOAD_KINDS if each.group == _KUBEFLOW},
}
"""Kind of the controller of a workload's pods, where decisions depend on it."""
HELD_BY_KUEUE = frozenset(POD_OWNERS.values()) - {"DaemonSet"}
"""Controllers of pods that Kueue holds back as a whole: their pods come with the labels of their
flavor's nodes, and Kueue gates none of them."""
NAME_LABELS: Mapping[str, str] = {
    "jobset.sigs.k8s.io/jobset-name": "JobSet",
    "leaderworkerset.sigs.k8s.io/name": "LeaderWorkerSet",
    "serving.kserve.io/inferenceservice": "InferenceService",
}
"""Labels by which pods name the workload of a kind that has other controllers in between."""


def find_kind(kinds: Mapping[str, WorkloadKind], raw: Json) -> WorkloadKind | None:
    """Find the kind of a manifest among `kinds`."""
    group = str(raw.get("apiVersion") or "").rpartition("/")[0]
    wanted = (group, raw.get("kind"))
    return next((each for each in kinds.values() if (each.group, each.kind) == wanted), None)


def merge_kinds(added: Sequence[WorkloadKind] = ()) -> Mapping[str, WorkloadKind]:
    """Return all kinds that are known, by `RESOURCE.GROUP`."""
    return {each.key: each for each in (*WORKLOAD_KINDS, *added)}


def find_values(raw: Any, path: Sequence[str]) -> list[tuple[Keys, Any]]:
    """Find what is at `path` in an object of any shape, and where; nothing where the path does not
    exist. Of each segment the first 1000 values count, also where lists are in lists."""
    found: list[tuple[Keys, Any]] = [((), raw)]
    for segment in path:
        below = (
            ((*keys, key), child)
            for keys, value in found
            for key, child in _list_children(value, segment)
        )
        found = list(islice(below, _MAX_ITEMS))
    return found


def _list_children(raw: Any, segment: str) -> Iterable[tuple[str | int, Any]]:
    if segment != EACH:
        child = raw.get(segment) if isinstance(raw, dict) else None
        return () if child is None else ((segment, child),)
    if isinstance(raw, list):
        return enumerate(raw)
    return raw.items() if isinstance(raw, dict) else ()


def bind(path: Sequence[str], place: Sequence[str], keys: Keys) -> Keys:
    """Return `path` with the keys that the `[*]` of `place` have in `keys`, in their order."""
    bound = iter([key for segment, key in zip(place, keys, strict=True) if segment == EACH])
    return tuple(next(bound) if segment == EACH else segment for segment in path)


def find_value(raw: Any, keys: Keys) -> Any:
    """Return what is there; None where there is nothing."""
    for key in keys:
        if isinstance(raw, dict):
            raw = raw.get(key)
        elif isinstance(raw, list) and isinstance(key, int) and key < len(raw):
            raw = raw[key]
        else:
            return None
    return raw


def list_rows() -> list[dict[str, Any]]:
    """Return the table as the chart keeps it."""
    return [
        each.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        for each in WORKLOAD_KINDS
    ]


if __name__ == "__main__":
    import yaml

    print("# Generated by `make workload-kinds` from operator/gpushare/workload_kinds.py.")
    print(yaml.safe_dump(list_rows(), sort_keys=False, width=100), end="")
