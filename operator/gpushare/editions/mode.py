"""What a mode is, in each edition: its labels, what serves it, and what it offers.

Labels and resources: the vendor's page on labels of GPU nodes, the guides on node pools for both
editions, and the open-source installation. DaemonSets: what the charts ack-ai-installer, ack-cgpu
and gpushare install in kube-system.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from gpushare import names
from gpushare.api.k8s.daemonset import FORMER
from gpushare.api.pool import Edition, PoolSpec, Schedule

TRUE, FALSE = "true", "false"


@dataclass(frozen=True, slots=True)
class Mode:
    """One mode of one edition."""

    edition: Edition
    schedule: Schedule
    labels: Mapping[str, str]
    resource: str = ""
    """The extended resource that a node in this mode offers, and every pod in it asks for."""
    plugin: str = ""
    """DaemonSet of the device plugin. Empty where none of the cluster's DaemonSets is it."""
    components: tuple[str, ...] = ()
    """Other DaemonSets that must be Ready on the node before the mode is what it says."""
    companions: tuple[str, ...] = ()
    """Resources that the node offers besides, for pods that ask for `resource` too."""
    recoverer: str = ""
    """DaemonSet that puts the manifest of the static whole-card plugin back, on clusters that have
    no DaemonSet `plugin`."""

    @property
    def reads_label(self) -> bool:
        """Whether its plugin serves other modes too: which one, it reads when it starts."""
        return any(
            other.plugin == self.plugin and other is not self
            for other in MODES.values()
            if self.plugin and other.edition is self.edition
        )

    @property
    def isolated(self) -> bool:
        """Whether the kernel keeps each container to its share (the cGPU modes)."""
        return self.schedule in (Schedule.CGPU, Schedule.CORE_MEM)

    @property
    def resources(self) -> tuple[str, ...]:
        return (self.resource, *self.companions) if self.resource else self.companions

    @property
    def daemonsets(self) -> tuple[str, ...]:
        return (self.plugin, *self.components) if self.plugin else self.components

    def relies_on_recoverer(self, daemonsets: Collection[str]) -> bool:
        """Whether a cluster that has these DaemonSets serves the mode by a static pod."""
        return self.plugin not in daemonsets and self.recoverer in daemonsets


def _professional(
    schedule: Schedule,
    resource: str,
    plugin: str,
    *components: str,
    companions: tuple[str, ...] = (),
    recoverer: str = "",
) -> Mode:
    labels = {names.LABEL_SCHEDULE: str(schedule)}
    edition = Edition.PROFESSIONAL
    return Mode(edition, schedule, labels, resource, plugin, components, companions, recoverer)


def _basic(schedule: Schedule, *, disable_isolation: str) -> Mode:
    return Mode(
        Edition.BASIC,
        schedule,
        {names.LABEL_CGPU: TRUE, names.LABEL_CGPU_DISABLE_ISOLATION: disable_isolation},
        names.RESOURCE_GPU_MEMORY,
        GPUSHARE_PLUGIN,
        ("cgpu-installer",),
    )


GPUSHARE_PLUGIN = "gpushare-device-plugin-ds"
INSTALLERS = frozenset(
    f"{former}{name}"
    for name in ("cgpu-installer", "cgpu-core-installer")
    for former in ("", FORMER)
)
"""DaemonSets that load the cGPU kernel module where they run, also those left over."""
_MEMORY, _WHOLE = names.RESOURCE_GPU_MEMORY, names.RESOURCE_WHOLE_GPU

MODES: Mapping[tuple[Edition, Schedule], Mode] = {
    (mode.edition, mode.schedule): mode
    for mode in (
        _professional(
            Schedule.DEFAULT,
            _WHOLE,
            "ack-nvidia-device-plugin",
            recoverer="nvidia-device-plugin-recover",
        ),
        _professional(Schedule.SHARE, _MEMORY, GPUSHARE_PLUGIN),
        _professional(Schedule.CGPU, _MEMORY, GPUSHARE_PLUGIN, "cgpu-installer"),
        _professional(
            Schedule.CORE_MEM,
            _MEMORY,
            "gpushare-core-device-plugin-ds",
            "cgpu-core-installer",
            companions=(names.RESOURCE_GPU_CORE,),
        ),
        _professional(Schedule.MPS, _MEMORY, "gpushare-mps-device-plugin-ds", "ack-mps-control"),
        _professional(Schedule.TOPOLOGY, names.RESOURCE_TOPOLOGY_GPU, "gputopo-device-plugin-ds"),
        _professional(Schedule.DISABLED, "", ""),
        # The whole-card plugin of these two editions is a static pod or an installation of
        # its own. On Basic the recover DaemonSet puts its manifest back, so cards are awaited;
        # on OpenSource nobody has to, so they are not (see core/deviceplugin).
        Mode(
            Edition.BASIC,
            Schedule.DEFAULT,
            {names.LABEL_CGPU: FALSE},
            _WHOLE,
            components=("device-plugin-recover-ds",),
        ),
        _basic(Schedule.SHARE, disable_isolation=TRUE),
        _basic(Schedule.CGPU, disable_isolation=FALSE),
        Mode(Edition.OPEN_SOURCE, Schedule.DEFAULT, {names.LABEL_GPUSHARE: FALSE}),
        Mode(
            Edition.OPEN_SOURCE,
            Schedule.SHARE,
            {names.LABEL_GPUSHARE: TRUE},
            _MEMORY,
            GPUSHARE_PLUGIN,
        ),
    )
}


SWITCHES: Mapping[Edition, str] = {
    Edition.PROFESSIONAL: names.LABEL_SCHEDULE,
    Edition.BASIC: names.LABEL_CGPU,
    Edition.OPEN_SOURCE: names.LABEL_GPUSHARE,
}
"""The label by which each edition's modes are switched on and off."""


def find_edition(labels: Mapping[str, str]) -> Edition | None:
    """The edition whose switch a node carries; of several, the Professional one goes first."""
    return next((edition for edition, key in SWITCHES.items() if key in labels), None)


def find_mode(edition: Edition, schedule: str) -> Mode | None:
    """The mode that `find_schedule` found; None for a value that is none in that edition."""
    return MODES.get((edition, Schedule(schedule))) if schedule in set(Schedule) else None


def find_schedule(edition: Edition, labels: Mapping[str, str]) -> str:
    """The mode that a node's labels stand for: a Schedule, or the label's own unknown value.

    No label of the edition means whole cards, as on clusters that label no new node. The plugin
    takes only exactly "true" of `cgpu.disable.isolation` to switch isolation off.
    """
    if edition is Edition.PROFESSIONAL:
        return labels.get(names.LABEL_SCHEDULE, Schedule.DEFAULT)
    if edition is Edition.BASIC:
        if labels.get(names.LABEL_CGPU) != TRUE:
            return Schedule.DEFAULT
        isolated = labels.get(names.LABEL_CGPU_DISABLE_ISOLATION) != TRUE
        return Schedule.CGPU if isolated else Schedule.SHARE
    shared = labels.get(names.LABEL_GPUSHARE) == TRUE
    return Schedule.SHARE if shared else Schedule.DEFAULT


def desired_labels(pool: str, spec: PoolSpec) -> dict[str, str]:
    """All labels that a member of `pool` gets."""
    labels = {**MODES[spec.edition, spec.schedule].labels, names.LABEL_POOL: pool}
    if spec.placement is not None:
        labels[names.LABEL_PLACEMENT] = str(spec.placement)
    return labels


def settled_labels(pool: str, spec: PoolSpec) -> dict[str, str]:
    """All labels that a member of `pool` has once its mode is verified."""
    is_isolated = MODES[spec.edition, spec.schedule].isolated
    verified = {names.LABEL_ISOLATION_VERIFIED: names.VERIFIED} if is_isolated else {}
    return desired_labels(pool, spec) | verified


def find_other_edition_labels(edition: Edition, labels: Mapping[str, str]) -> dict[str, str]:
    """Labels by which another edition shares this node's GPUs.

    Two editions on one node contradict each other: `cgpu=true` keeps isolation on beside
    `ack.node.gpu.schedule=share`. Values that leave whole cards alone do no harm.
    """
    harmless = (FALSE, Schedule.DEFAULT)
    return {
        key: labels[key]
        for other, key in SWITCHES.items()
        if other is not edition and key in labels and labels[key] not in harmless
    }
