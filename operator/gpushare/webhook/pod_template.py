"""Finds the pods that a workload will create in its template."""

from msgspec.structs import replace

from gpushare import names
from gpushare.api.k8s.pod_shape import Metadata, Owner, PodShape, Shape


class Resource(Shape, frozen=True):
    """A kind of object, as in a URL of the API."""

    group: str | None = None
    version: str | None = None
    resource: str | None = None


class WorkloadSpec(Shape, frozen=True):
    """The template of a workload's pods, or of a CronJob's Jobs."""

    template: PodShape | None = None
    job_template: "WorkloadShape | None" = None


class WorkloadShape(Shape, frozen=True):
    """What creates pods."""

    metadata: Metadata | None = None
    spec: WorkloadSpec | None = None


class NoTemplateError(ValueError):
    """A workload must have a template of its pods."""


PODS = Resource("", "v1", "pods")
_DAEMONSETS = Resource("apps", "v1", "daemonsets")
_JOBS = Resource("batch", "v1", "jobs")
_CRONJOBS = Resource("batch", "v1", "cronjobs")
_OWNERS = {_DAEMONSETS: "DaemonSet", _JOBS: "Job", _CRONJOBS: "Job"}
"""What owns their pods, where that matters."""
WORKLOADS = frozenset(
    {
        Resource("apps", "v1", "deployments"),
        Resource("apps", "v1", "statefulsets"),
        _DAEMONSETS,
        _JOBS,
        _CRONJOBS,
    }
)


def find_template(resource: Resource, workload: WorkloadShape) -> PodShape | None:
    """Find a pod as `workload` will create it; None for what is no workload.

    Its pods are known by more than the template: a DaemonSet owns them and chooses their nodes, and
    Kueue holds back those of a workload that carries its labels, or the Job itself. Raises
    `NoTemplateError`.
    """
    if resource not in WORKLOADS:
        return None
    queued = _find_queue(workload)
    if resource == _CRONJOBS:
        workload = (workload.spec and workload.spec.job_template) or WorkloadShape()
        queued |= _find_queue(workload)
    if workload.spec is None or (template := workload.spec.template) is None:
        raise NoTemplateError("the workload has no pod template")
    metadata = template.metadata or Metadata()
    metadata = replace(metadata, labels=queued | (metadata.labels or {}))
    if (owner := _OWNERS.get(resource)) is not None:
        metadata = replace(metadata, owner_references=(Owner(owner, True),))
    return PodShape(metadata, template.spec)


def _find_queue(workload: WorkloadShape) -> dict[str, str]:
    labels = (workload.metadata and workload.metadata.labels) or {}
    return {key: value for key, value in labels.items() if key.startswith(names.KUEUE_PREFIX)}
