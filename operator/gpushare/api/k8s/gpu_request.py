"""Counts a pod's requests as kube-scheduler does, and finds GPUs that it may use without them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from gpushare import names
from gpushare.api.k8s.pod_shape import Container, Resources, Spec
from gpushare.api.k8s.resources.host import HostResources, parse_scaled
from gpushare.api.k8s.resources.quantity import is_count, parse_exactly, parse_quantity

_ON = ("true", "1")
"""Values of CGPU_DISABLE that disable isolation (vendor's guide on cGPU)."""
_NO_DEVICES = ("none", "void", "")
"""Values of NVIDIA_VISIBLE_DEVICES that give no card (NVIDIA Container Toolkit)."""
_FROM_ELSEWHERE = "?"
"""Value for a variable with `valueFrom`, whose value is unknown."""
_DEVICES = "/dev/nvidia"
"""Prefix of the paths of cards on a node."""
DEVICES_FOLDER = "/var/run/nvidia-container-devices"
"""Folder in which each mounted path of a container names a card (NVIDIA Container Toolkit, with
`accept-nvidia-visible-devices-as-volume-mounts`)."""
_RUNTIME_CLASS = "nvidia"
"""RuntimeClass of the GPU Operator, and prefix of its others (nvidia-cdi, nvidia-legacy)."""
ALL_DEVICES = "privileged, with all of /dev"
"""Sign of a pod that may use every device, though most such pods use no card."""
_REFERENCE = "$("
"""Begin of a reference to another variable, which the kubelet resolves."""


@dataclass(frozen=True, slots=True)
class GpuEnvironment:
    """The GPU variables of a container; of two with one name the last counts."""

    disables_isolation: bool = False
    """Whether CGPU_DISABLE turns isolation off."""
    may_disable_isolation: bool = False
    """Whether CGPU_DISABLE turns isolation off, or has a value that is only known at the start."""
    names_cards: bool = False
    """Whether NVIDIA_VISIBLE_DEVICES names the visible cards, whatever is allocated."""
    hides_cards: bool = False
    """Whether NVIDIA_VISIBLE_DEVICES hides all cards, whatever the image sets."""
    means_gpu: bool = False
    """Whether one of both variables is set, to a value other than for no card."""


NO_GPU_ENVIRONMENT = GpuEnvironment()


def read_gpu_environment(container: Container) -> GpuEnvironment:
    """Read the environment variables of a container that concern GPUs."""
    values: dict[str, str] = {}
    for variable in container.env or ():
        if variable.name in names.GPU_ENVIRONMENT:
            elsewhere = _FROM_ELSEWHERE if variable.value_from else ""
            values[variable.name] = variable.value or elsewhere
    if not values:
        return NO_GPU_ENVIRONMENT
    disables = values.get(names.ENV_CGPU_DISABLE, "")
    return GpuEnvironment(
        disables_isolation=disables in _ON,
        may_disable_isolation=disables in (*_ON, _FROM_ELSEWHERE) or _REFERENCE in disables,
        names_cards=values.get(names.ENV_VISIBLE_DEVICES, "") not in _NO_DEVICES,
        hides_cards=values.get(names.ENV_VISIBLE_DEVICES, _FROM_ELSEWHERE) in _NO_DEVICES,
        means_gpu=any(value not in _NO_DEVICES for value in values.values()),
    )


Amounts = Mapping[str, int]
"""Amounts by GPU resource."""
NO_AMOUNTS: Amounts = MappingProxyType({})
_VENDOR = "nvidia.com/"
_VENDORS = (_VENDOR, "aliyun.com/")
_HOST_SCALES = {"cpu": 1000, "memory": 1}
"""Units of counted requests: thousandths of a CPU, and bytes."""
SIDECAR = "Always"
"""Restart policy of a sidecar, an init container that keeps running."""


def count_gpu_requests(spec: Spec) -> Amounts:
    """Count the GPU resources that a pod spec requests, as kube-scheduler does.

    Containers and sidecars run together; an init container runs beside the sidecars started before
    it; the larger sum counts ("Sidecar Containers" in the Kubernetes documentation).
    """
    starting = spec.init_containers or ()
    running = spec.containers or ()
    return add_up(list(map(count_container, running)), starting, map(count_container, starting))


def count_host_requests(spec: Spec) -> HostResources:
    """Count the CPU and the memory that a pod spec requests, as kube-scheduler does."""
    asked = count_host_amounts(spec)
    return HostResources(asked.get("cpu", 0), asked.get("memory", 0) // 2**30)


def count_host_amounts(spec: Spec, unset: Mapping[str, int] = NO_AMOUNTS) -> Amounts:
    """Count thousandths of a CPU (`cpu`) and bytes of memory (`memory`) that a pod spec requests,
    as kube-scheduler does; a container without a request counts as `unset`."""
    starting = spec.init_containers or ()
    running = [_count_host(container, unset) for container in spec.containers or ()]
    return add_up(running, starting, (_count_host(each, unset) for each in starting))


def _count_host(container: Container, unset: Mapping[str, int]) -> Amounts:
    resources = container.resources or Resources()
    # The API server takes a limit for a missing request.
    asked = {**(resources.limits or {}), **(resources.requests or {})}
    found = {name: parse_scaled(str(asked.get(name)), n) for name, n in _HOST_SCALES.items()}
    return {name: unset.get(name, 0) if n is None else n for name, n in found.items()}


def count_card_memory(running: Iterable[Amounts]) -> int:
    """Count the units of GPU memory of these containers, as the scheduler extender does.

    Init containers are left out, sidecars too (`pkg/utils/pod.go` of
    AliyunContainerService/gpushare-scheduler-extender). kube-scheduler may count more.
    """
    return sum([each.get(names.RESOURCE_GPU_MEMORY, 0) for each in running])


def count_per_card(
    memory: int, card_memory: int, cards: int, *, is_extended: bool
) -> tuple[int, int]:
    """Count the units that a pod needs of one card, and its cards.

    `memory` is by `count_gpu_requests`, `card_memory` by `count_card_memory`; `cards` is the value
    of the pod's label, which a scheduler extender (`is_extended`) does not read.
    """
    return (card_memory or memory, 1) if is_extended else (memory // cards, cards)


def add_up(
    running: Sequence[Amounts], starting: Sequence[Container], asked: Iterable[Amounts]
) -> Amounts:
    """Sum the requests of a pod's containers; `asked` has those of `starting`, in its order."""
    together = running[0] if len(running) == 1 else _add(running)
    if not starting:
        return together
    sidecars: dict[str, int] = {}
    highest: dict[str, int] = {}
    for container, amounts in zip(starting, asked, strict=True):
        for resource, amount in amounts.items():
            beside = sidecars.get(resource, 0) + amount
            highest[resource] = max(highest.get(resource, 0), beside)
            if container.restart_policy == SIDECAR:
                sidecars[resource] = beside
    needed = _add((together, sidecars))
    for resource, amount in highest.items():
        needed[resource] = max(needed.get(resource, 0), amount)
    return needed


def count_container(container: Container) -> Amounts:
    """Count the GPU resources of one container; limits take precedence over requests."""
    if container.resources is None:
        return NO_AMOUNTS
    limits, requests = container.resources.limits, container.resources.requests
    asked = {**requests, **limits} if requests and limits else requests or limits
    if not asked:
        return NO_AMOUNTS
    amounts = {}
    for resource, quantity in asked.items():
        if resource not in names.GPU_RESOURCES or quantity is None:
            continue
        amount = parse_quantity(quantity)
        # An invalid quantity counts as a request, so that it blocks a change like any other.
        if amount is None or amount > 0:
            amounts[resource] = 1 if amount is None else amount
    return amounts


def find_invalid_requests(spec: Spec) -> Iterator[str]:
    """Find GPU requests for which the API server refuses a pod ("Extended resources" in the
    Kubernetes documentation), such as in the pod template of a custom resource."""
    for container in (*(spec.init_containers or ()), *(spec.containers or ())):
        resources = container.resources or Resources()
        limits, requests = resources.limits or {}, resources.requests or {}
        for resource in sorted(key for key in {**limits, **requests} if key.startswith(_VENDORS)):
            if (why := _find_invalid(limits.get(resource), requests.get(resource))) is not None:
                yield f"container {container.name}: {resource} {why}"


def _find_invalid(limit: object, request: object) -> str | None:
    amounts = [(each, parse_exactly(each)) for each in (limit, request) if each is not None]
    for written, amount in amounts:
        if amount is None or not is_count(amount):
            return f"is {written}, but must be a whole number that is not negative"
    if limit is None and request is not None:
        return f"is requested ({request}) without a limit. Set the same limit"
    if len({amount for _, amount in amounts}) > 1:
        return f"has the limit {limit} and the request {request}. Set both to the same amount"
    return None


def asks_for_other_gpu(container: Container) -> bool:
    """Tell whether a container requests another GPU resource, such as `nvidia.com/mig-1g.5gb`, or
    one of another scheduler."""
    return bool(_find_limit(container, _VENDOR) or _find_others_request(container))


def _find_others_request(container: Container) -> str:
    """Find the resource by which another scheduler gives cards to a container; empty for none."""
    return _find_limit(container, names.OTHER_SCHEDULERS_PREFIXES)


def _find_limit(container: Container, prefixes: str | tuple[str, ...]) -> str:
    """Find a limit above 0 by its prefix; extended resources have no request without a limit."""
    limits = (container.resources and container.resources.limits) or {}
    asked = (key for key in limits if key.startswith(prefixes) and parse_quantity(limits[key]) != 0)
    return next(asked, "")


def asks_for_card_count(container: Container) -> bool:
    """Tell whether a container requests `aliyun.com/gpu-count`, which gives no card."""
    asked = container.resources
    return asked is not None and names.RESOURCE_GPU_COUNT in (asked.limits or ())


def list_running(spec: Spec) -> tuple[Container, ...]:
    """List the containers that live as long as the pod: sidecars, then regular containers."""
    sidecars = (each for each in spec.init_containers or () if each.restart_policy == SIDECAR)
    return (*sidecars, *(spec.containers or ()))


def list_host_paths(raw: Mapping[str, Any]) -> list[str]:
    """List the paths of the node that a pod mounts, from the JSON of its spec."""
    return [
        mounted.get("path") or ""
        for volume in raw.get("volumes") or ()
        if (mounted := volume.get("hostPath"))
    ]


def find_unrequested_cards(raw: Mapping[str, Any], spec: Spec, paths: Sequence[str]) -> str:
    """Find a sign that a pod without counted requests may use cards; empty where there is none.

    `raw` is the JSON of the pod's `spec`, `paths` its mounted paths of the host. NVIDIA's runtime
    gives the cards that NVIDIA_VISIBLE_DEVICES names (NVIDIA Container Toolkit), also where an
    image or `envFrom` sets it, which no Pod shows. Other schedulers count cards by resources of
    their own, which no pool counts.
    """
    for container in list_running(spec):
        if resource := _find_others_request(container):
            return f"{resource} of container {container.name}"
    runtime = raw.get("runtimeClassName") or ""
    if not (paths or runtime or _sets_visible_devices(spec)):
        # Nearly all pods of a cluster, each of whose events is parsed.
        return ""
    running = list_running(spec)
    if any(map(asks_for_other_gpu, running)):
        return ""
    environments = list(map(read_gpu_environment, running))
    for container, environment in zip(running, environments, strict=True):
        if environment.names_cards:
            return f"{names.ENV_VISIBLE_DEVICES} of container {container.name}"
    for path in paths:
        if path.startswith(_DEVICES):
            return f"hostPath {path}"
    for container in raw.get("containers") or ():
        if any(map(names_card, container.get("volumeMounts") or ())):
            return f"a mount below {DEVICES_FOLDER} of container {container['name']}"
    is_nvidias = runtime == _RUNTIME_CLASS or runtime.startswith(f"{_RUNTIME_CLASS}-")
    if is_nvidias and not all(each.hides_cards for each in environments):
        return f"runtimeClassName {runtime}"
    if any(path.rstrip("/") in ("", "/dev") for path in paths) and _is_privileged(raw):
        return ALL_DEVICES
    return ""


def names_card(mount: Mapping[str, Any]) -> bool:
    """Tell whether a volumeMount names a card."""
    return str(mount.get("mountPath") or "").startswith(DEVICES_FOLDER)


def _sets_visible_devices(spec: Spec) -> bool:
    for containers in (spec.containers, spec.init_containers):
        for container in containers or ():
            for variable in container.env or ():
                if variable.name == names.ENV_VISIBLE_DEVICES:
                    return True
    return False


def _is_privileged(raw: Mapping[str, Any]) -> bool:
    containers = (*(raw.get("containers") or ()), *(raw.get("initContainers") or ()))
    return any((each.get("securityContext") or {}).get("privileged") for each in containers)


def _add(containers: Iterable[Amounts]) -> dict[str, int]:
    together: dict[str, int] = {}
    for amounts in containers:
        for resource, amount in amounts.items():
            together[resource] = together.get(resource, 0) + amount
    return together
