"""Parses a Pod for the kubelet."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from devcluster import names
from devcluster.apiobject import Object
from devcluster.errors import ClusterError

_KEYED = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]")


class UnplayableError(ClusterError):
    """The Pod has a field that is not played here; the message names it."""


@dataclass(frozen=True)
class Probe:
    """An HTTP probe ("Configure Liveness, Readiness and Startup Probes" of Kubernetes)."""

    path: str
    port: int
    initial_delay_seconds: float
    period_seconds: float
    timeout_seconds: float
    success_threshold: int
    failure_threshold: int


@dataclass(frozen=True)
class Container:
    """The only container of a pod, which runs the image's entrypoint."""

    name: str
    image: str
    args: tuple[str, ...]
    env: Mapping[str, str]
    startup: Probe | None
    liveness: Probe | None
    readiness: Probe | None


@dataclass(frozen=True)
class Pod:
    """A pod that is bound to one of the kubelet's nodes."""

    uid: str
    namespace: str
    name: str
    account: str
    restart_policy: str
    token_seconds: int | None
    """Lifetime of the mounted token; None where there is none."""
    is_deleted: bool
    grace_seconds: float
    """Grace period of the deletion, or before it that of the spec."""
    version: int
    """resourceVersion of the Pod."""
    source: Object = field(repr=False, compare=False)

    @property
    def path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods/{self.name}"


def parse_pod(raw: Object) -> Pod | None:
    """Parse a pod; None where its node selector is not for the kubelet's nodes."""
    meta, spec = raw["metadata"], raw["spec"]
    if names.RUNS_PROCESSES not in spec.get("nodeSelector", {}):
        return None
    return Pod(
        uid=meta["uid"],
        namespace=meta["namespace"],
        name=meta["name"],
        account=spec["serviceAccountName"],
        restart_policy=spec["restartPolicy"],
        token_seconds=_find_token_seconds(spec),
        is_deleted="deletionTimestamp" in meta,
        grace_seconds=meta.get("deletionGracePeriodSeconds", spec["terminationGracePeriodSeconds"]),
        version=int(meta["resourceVersion"]),
        source=raw,
    )


def parse_container(pod: Object, address: str) -> Container:
    """Parse the container of a pod with an `address`.

    Raises :class:`UnplayableError` where only a real kubelet could run the container.
    """
    if len(pod["spec"]["containers"]) != 1 or pod["spec"].get("initContainers"):
        raise UnplayableError("a pod here has one container, and none before it")
    (raw,) = pod["spec"]["containers"]
    if "command" in raw:
        raise UnplayableError(f"command {raw['command']}: only the image's entrypoint is run here")
    if "envFrom" in raw:
        raise UnplayableError("envFrom: Secrets and ConfigMaps are not read here")
    ports = {port["name"]: port["containerPort"] for port in raw.get("ports", ()) if "name" in port}
    return Container(
        name=raw["name"],
        image=raw["image"],
        args=tuple(raw.get("args", ())),
        env={each["name"]: _resolve(each, pod, address) for each in raw.get("env", ())},
        startup=_parse_probe(raw.get("startupProbe"), ports),
        liveness=_parse_probe(raw.get("livenessProbe"), ports),
        readiness=_parse_probe(raw.get("readinessProbe"), ports),
    )


def _find_token_seconds(spec: Object) -> int | None:
    # The API server has added the volume where the account's token is to be mounted.
    for volume in spec.get("volumes", ()):
        for source in volume.get("projected", {}).get("sources", ()):
            if "serviceAccountToken" in source:
                seconds: int = source["serviceAccountToken"]["expirationSeconds"]
                return seconds
    return None


def _resolve(variable: Object, pod: Object, address: str) -> str:
    if "valueFrom" not in variable:
        value: str = variable.get("value", "")
        if "$(" in value:
            raise UnplayableError(f"{variable['name']}: variables are not expanded here")
        return value
    path = variable["valueFrom"].get("fieldRef", {}).get("fieldPath", "")
    if match := _KEYED.fullmatch(path):
        resolved = pod["metadata"].get(match[1], {}).get(match[2], "")
    else:
        fields = {
            "metadata.name": pod["metadata"]["name"],
            "metadata.namespace": pod["metadata"]["namespace"],
            "metadata.uid": pod["metadata"]["uid"],
            "spec.nodeName": pod["spec"]["nodeName"],
            "spec.serviceAccountName": pod["spec"]["serviceAccountName"],
            "status.podIP": address,
        }
        if path not in fields:
            raise UnplayableError(f"{variable['name']}: {variable['valueFrom']} is not read here")
        resolved = fields[path]
    return str(resolved)


def _parse_probe(raw: Object | None, ports: Mapping[str, int]) -> Probe | None:
    if raw is None:
        return None
    if "httpGet" not in raw or raw["httpGet"].get("scheme", "HTTP") != "HTTP":
        raise UnplayableError(f"probe {raw}: only httpGet without TLS is played here")
    port = raw["httpGet"]["port"]
    return Probe(
        path=raw["httpGet"].get("path", "/"),
        port=ports[port] if isinstance(port, str) else port,
        # The API server has filled in the other defaults.
        initial_delay_seconds=raw.get("initialDelaySeconds", 0),
        period_seconds=raw["periodSeconds"],
        timeout_seconds=raw["timeoutSeconds"],
        success_threshold=raw["successThreshold"],
        failure_threshold=raw["failureThreshold"],
    )
