"""Finds the pods in manifests, and the templates of pods."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gpushare.api.k8s.gpu_request import find_invalid_requests
from gpushare.api.k8s.pod_shape import MalformedPodError, PodShape, Spec, parse_pod_shape
from gpushare.cli.exit_codes import CommandError, Exit
from gpushare.cli.input.manifests import Given
from gpushare.webhook.pod_template import PodsFound, find_pods
from gpushare.workload_kinds import WorkloadKind, find_kind

Kinds = Mapping[str, WorkloadKind]


@dataclass(frozen=True, slots=True)
class PodTemplate:
    """A pod, or a template of a workload, with the pod as the webhook is asked about it."""

    given: Given
    where: str
    """Path of the template; empty where the kind has only one."""
    pod: PodShape
    count: int | None = None
    """How many such pods the workload asks for; None where it does not say."""

    @property
    def shown(self) -> str:
        return f"{self.given.shown} {self.where}".rstrip()

    @property
    def kind(self) -> str:
        return str(self.given.raw["kind"])

    @property
    def namespace(self) -> str:
        """Empty where it names none."""
        return str(_read_metadata(self.given).get("namespace") or "")

    @property
    def name(self) -> str:
        metadata = _read_metadata(self.given)
        return str(metadata.get("name") or metadata.get("generateName") or "")


@dataclass(frozen=True, slots=True)
class UnknownPods:
    """Pods of a workload that its manifest does not tell."""

    given: Given
    where: str
    problem: str

    @property
    def shown(self) -> str:
        return f"{self.given.shown} {self.where}".rstrip()


@dataclass(frozen=True, slots=True)
class FoundTemplates:
    """The pods in some manifests."""

    templates: tuple[PodTemplate, ...]
    unknown: tuple[UnknownPods, ...]
    skipped: tuple[Given, ...]
    """Objects without pods that the webhook is asked about."""


def find_pod_templates(objects: Iterable[Given], kinds: Kinds) -> FoundTemplates:
    """Find the pods in these objects, of which `kinds` are known.

    Raises `CommandError` for what is no pod, or one that the API server would refuse.
    """
    templates: list[PodTemplate] = []
    unknown: list[UnknownPods] = []
    skipped: list[Given] = []
    for given in objects:
        try:
            found = list(_find_pods(given, kinds))
        except MalformedPodError as error:
            message = f"{given.source}: {given.shown}: {error}"
            raise CommandError(Exit.MANIFEST, message) from error
        if not found:
            skipped.append(given)
        for each in found:
            if each.pod is None:
                unknown.append(UnknownPods(given, each.where, each.problem))
                continue
            if invalid := list(find_invalid_requests(each.pod.spec or Spec())):
                message = f"{given.source}: {given.shown}: {'; '.join(invalid)}"
                raise CommandError(Exit.MANIFEST, message)
            templates.append(PodTemplate(given, each.where, each.pod, _count(given, each)))
    return FoundTemplates(tuple(templates), tuple(unknown), tuple(skipped))


def _read_metadata(given: Given) -> Mapping[str, object]:
    return given.raw.get("metadata") or {}


def _find_pods(given: Given, kinds: Kinds) -> Iterable[PodsFound]:
    if (given.raw.get("apiVersion"), given.raw["kind"]) == ("v1", "Pod"):
        pod = parse_pod_shape(given.raw)
        if pod.metadata is None:
            raise MalformedPodError("the pod has no metadata")
        return [PodsFound("", pod)]
    if (kind := find_kind(kinds, given.raw)) is None:
        return []
    found = list(find_pods(kind, given.raw))
    if kind.is_built_in and not found:
        raise MalformedPodError("the workload has no pod template")
    if kind.is_built_in and found[0].pod is None:
        raise MalformedPodError(found[0].problem)
    return found


def _count(given: Given, found: PodsFound) -> int | None:
    """Count the pods. Raises `CommandError` for an impossible number."""
    count = None
    for path, number in found.replicas:
        if number is None:
            continue
        if type(number) is not int or number < 0:
            message = f"{given.shown}: {path} must be a whole number of at least 0"
            raise CommandError(Exit.MANIFEST, message)
        count = number if count is None else count * number
    return count
