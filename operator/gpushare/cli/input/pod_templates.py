"""Finds the pods in manifests, and the templates of pods."""

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from gpushare.api.k8s.gpu_request import find_invalid_requests
from gpushare.api.k8s.pod_shape import MalformedPodError, PodShape, Spec, parse_pod_shape
from gpushare.cli.exit_codes import CommandError, Exit
from gpushare.cli.input.manifests import Given
from gpushare.webhook.pod_template import (
    PODS,
    WORKLOADS,
    NoTemplateError,
    Resource,
    WorkloadShape,
    find_template,
)


@dataclass(frozen=True, slots=True)
class PodTemplate:
    """A pod or a workload, with the pod as the webhook is asked about it."""

    kind: str
    namespace: str
    """Empty where it names none."""
    name: str
    pod: PodShape


def find_pod_templates(
    objects: Iterable[Given],
) -> tuple[tuple[PodTemplate, ...], tuple[Given, ...]]:
    """Find the pods in these objects, and the objects without pods that the webhook is asked about.

    Raises `CommandError` for what is no pod, or one that the API server would refuse.
    """
    templates: list[PodTemplate] = []
    skipped: list[Given] = []
    for given in objects:
        try:
            pod = _find_pod(given)
        except (MalformedPodError, NoTemplateError, msgspec.ValidationError) as error:
            message = f"{given.source}: {given.shown}: {error}"
            raise CommandError(Exit.MANIFEST, message) from error
        if pod is None:
            skipped.append(given)
            continue
        if invalid := list(find_invalid_requests(pod.spec or Spec())):
            message = f"{given.source}: {given.shown}: {'; '.join(invalid)}"
            raise CommandError(Exit.MANIFEST, message)
        metadata = given.raw.get("metadata") or {}
        namespace = str(metadata.get("namespace") or "")
        name = str(metadata.get("name") or metadata.get("generateName") or "")
        templates.append(PodTemplate(given.raw["kind"], namespace, name, pod))
    return tuple(templates), tuple(skipped)


def _find_pod(given: Given) -> PodShape | None:
    group, _, version = str(given.raw.get("apiVersion") or "").rpartition("/")
    resource = Resource(group, version, f"{given.raw['kind'].lower()}s")
    if resource == PODS:
        pod = parse_pod_shape(given.raw)
        if pod.metadata is None:
            raise MalformedPodError("the pod has no metadata")
        return pod
    # Another kind may have any shape.
    if resource not in WORKLOADS:
        return None
    return find_template(resource, msgspec.convert(given.raw, WorkloadShape))
