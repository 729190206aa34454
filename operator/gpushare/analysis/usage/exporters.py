"""Lists the series by which exporters report the memory of cards that pods use."""

from collections.abc import Mapping
from dataclasses import dataclass

MIB = 2**20
_TARGET_LABELS = (
    *("instance", "job", "endpoint", "service", "pod", "namespace", "container", "node"),
    *("prometheus", "prometheus_replica", "replica"),
)
"""Labels that Prometheus adds for whom it read. They differ between two readers of one exporter,
and after its restart, while the memory is the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exporter:
    """A series, and what it proves. Sources: docs/usage.md."""

    name: str
    series: str
    bytes_per_unit: int = 1
    namespace: str
    """Label with the namespace of the pod."""
    pod: str
    node: str = ""
    """Label with the name of the node; empty where none has it."""
    container: str = ""
    """Label with the name of the container; empty where none has it."""
    card: tuple[str, ...]
    """Labels that tell the cards of one pod apart."""
    of_card: bool = False
    """Whether the value is that of the whole card, which says something of a pod only if it holds
    the card alone."""
    absent: tuple[str, ...] = ()
    """Labels by whose presence the series has another meaning."""

    may_split: bool = False
    """Whether one container may have several series for one card, such as one for each process, by
    a label that is not known here."""

    @property
    def key(self) -> tuple[str, ...]:
        """Labels by which one container's memory of one card is told apart."""
        found = (self.namespace, self.pod, self.container, *self.card)
        return tuple(label for label in found if label)

    @property
    def added(self) -> tuple[str, ...]:
        """Labels that are not the exporter's own."""
        own = (*self.key, self.node)
        return tuple(label for label in _TARGET_LABELS if label not in own)

    def find_pod(self, labels: Mapping[str, str]) -> tuple[str, str]:
        """Find namespace and name of the pod of a series."""
        return labels.get(self.namespace, ""), labels.get(self.pod, "")


_HAMI, _DCGM = "hami_vgpu_memory_used_bytes", "DCGM_FI_DEV_FB_USED"
EXPORTERS = (
    Exporter(
        name="HAMi's monitor",
        series=_HAMI,
        namespace="exported_namespace",
        pod="exported_pod",
        container="exported_container",
        card=("device_uuid", "vdevice_index"),
    ),
    Exporter(
        name="HAMi's monitor",
        series=_HAMI,
        namespace="namespace",
        pod="pod",
        container="container",
        card=("device_uuid", "vdevice_index"),
        absent=("exported_pod",),
    ),
    Exporter(
        name="HAMi's monitor before 2.9",
        series="vGPU_device_memory_usage_in_bytes",
        namespace="podnamespace",
        pod="podname",
        container="ctrname",
        card=("deviceuuid", "vdeviceid"),
    ),
    Exporter(
        name="ACK's exporter 2.0, processes",
        series="DCGM_CUSTOM_PROCESS_MEM_USED",
        bytes_per_unit=MIB,
        namespace="NamespaceName",
        pod="PodName",
        node="NodeName",
        container="ContainerName",
        card=("UUID", "gpu"),
        may_split=True,
    ),
    Exporter(
        name="ACK's exporter 1.0",
        series="nvidia_gpu_memory_used_bytes",
        namespace="namespace_name",
        pod="pod_name",
        node="node_name",
        container="container_name",
        card=("uuid", "minor_number"),
    ),
    Exporter(
        name="ACK's exporter 2.0, cards",
        series=_DCGM,
        bytes_per_unit=MIB,
        namespace="NamespaceName",
        pod="PodName",
        node="NodeName",
        card=("UUID", "gpu"),
        of_card=True,
    ),
    Exporter(
        name="dcgm-exporter",
        series=_DCGM,
        bytes_per_unit=MIB,
        namespace="exported_namespace",
        pod="exported_pod",
        node="Hostname",
        card=("UUID", "gpu", "GPU_I_ID"),
        of_card=True,
    ),
    Exporter(
        name="dcgm-exporter",
        series=_DCGM,
        bytes_per_unit=MIB,
        namespace="namespace",
        pod="pod",
        node="Hostname",
        card=("UUID", "gpu", "GPU_I_ID"),
        of_card=True,
        absent=("exported_pod", "PodName"),
    ),
)
"""Of several that report one pod, the first of those that saw it longest counts."""
