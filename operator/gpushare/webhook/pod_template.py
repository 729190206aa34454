"""Builds the pod that a workload will create, from its template."""

from msgspec.structs import replace

from gpushare import names
from gpushare.api.k8s.pod_shape import Metadata, Owner, PodShape, Shape


class Resource(Shape, frozen=True):
    """Group, version and plural name of a kind, as in a URL of the API."""

    group: str | None = None
    version: str | None = None
    resource: str | None = None


class WorkloadSpec(Shape, frozen=True):
    """Spec with the template of a workload's pods, or of a CronJob's Jobs."""

    template: PodShape | None = None
    job_template: "WorkloadShape | None" = None


class WorkloadShape(Shape, frozen=True):
    """A workload: the fields that its pods depend on."""

    metadata: Metadata | None = None
    spec: WorkloadSpec | None = None


class NoTemplateError(ValueError):
    """The workload has no pod template."""


PODS = Resource("", "v1", "pods")
_DAEMONSETS = Resource("apps", "v1", "daemonsets")
_JOBS = Resource("batch", "v1", "jobs")
_CRONJOBS = Resource("batch", "v1", "cronjobs")
_OWNERS = {_DAEMONSETS: "DaemonSet", _JOBS: "Job", _CRONJOBS: "Job"}
"""Kind of the owner of a workload's pods, where decisions depend on it."""
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
    """Build the pod that `workload` will create; None for another kind of object.

    The template gets the owner of the pods (a DaemonSet chooses their nodes) and the workload's
    labels of Kueue, which holds the pods or the Job back. Raises `NoTemplateError`.
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
