"""Reads the pods that a user wants to have simulated."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpushare import names
from gpushare.analysis.placement.place import QueuedPod
from gpushare.api.k8s.pod_request import Placer, read_pod_request
from gpushare.cli.exit_codes import CommandError, Exit
from gpushare.cli.input.manifests import Given
from gpushare.cli.input.pod_templates import Kinds, PodTemplate, find_pod_templates


@dataclass(frozen=True, slots=True)
class Wanted:
    """Manifests of pods, and how many of each."""

    objects: Sequence[Given] = ()
    count: int | None = None
    namespace: str | None = None
    most: int = 0
    """Limit of the pods of all manifests."""


@dataclass(frozen=True, slots=True)
class WantedPods:
    """The pods of some manifests, and the objects that are none."""

    pods: tuple[QueuedPod, ...]
    skipped: tuple[str, ...]


NOTHING_WANTED = Wanted()


def list_wanted(wanted: Wanted, default_namespace: str, kinds: Kinds) -> WantedPods:
    """List the pods that are wanted, of workloads of these `kinds`.

    Raises `CommandError` for what is no pod, where the API server would refuse one, where there are
    more than `wanted.most`, and where no pod is left that a scheduler places on shared cards.
    """
    pods: list[QueuedPod] = []
    skipped: list[str] = []
    found = find_pod_templates(wanted.objects, kinds)
    skipped += [each.shown for each in found.skipped]
    skipped += [f"{each.shown} (not known: {each.problem})" for each in found.unknown]
    for template in found.templates:
        if why := _find_reason_to_skip(template):
            skipped.append(f"{template.shown} ({why})")
            continue
        count = wanted.count or (1 if template.count is None else template.count)
        if count == 0:
            skipped.append(f"{template.shown} (has no replicas; --count sets their number)")
        if len(pods) + count > wanted.most:
            message = f"--pods: more than {wanted.most} pods. Lower --count or the replicas"
            raise CommandError(Exit.USAGE, message)
        pods += _repeat(template, wanted.namespace or default_namespace, count)
    if wanted.objects and not pods:
        raise CommandError(
            Exit.MANIFEST, f"--pods: no pod that requests a GPU found among {', '.join(skipped)}"
        )
    return WantedPods(tuple(pods), tuple(skipped))


def _find_reason_to_skip(template: PodTemplate) -> str:
    request = read_pod_request(template.pod)
    if request.placer is Placer.DAEMONSET:
        return str(Placer.DAEMONSET)
    return "" if request.requests else f"requests no {names.RESOURCE_GPU_MEMORY} or other GPU"


def _repeat(template: PodTemplate, namespace: str, count: int) -> Iterator[QueuedPod]:
    where = template.namespace or namespace
    for number in range(count):
        named = f"{template.name} {template.where}".rstrip()
        name = named if count == 1 else f"{named}-{number}"
        yield QueuedPod(where, name, template.pod)
