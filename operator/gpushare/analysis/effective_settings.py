"""Reads the settings of an installation, value by value, and where each is from.

They are written in the variables of the operator's Deployments. Where those can't be read, they are
assumed: the chart's defaults, except for what nodes and pools show.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic.fields import FieldInfo

from gpushare import names
from gpushare.api.rollout import StaleWorkloadPolicy, TeardownPolicy, WorkloadPolicy
from gpushare.api.status import MemoryUnit
from gpushare.core.capacity.memory_sums import MemorySums
from gpushare.core.capacity.node_capacity import observe_node_capacity
from gpushare.core.snapshot.cluster import ClusterSnapshot
from gpushare.names import SETTINGS_PREFIX, Reason
from gpushare.settings import Settings, Variable

ASSUMED = "assumed"
DEFAULT = "default"
Variables = Mapping[str, str | None]
"""Environment variables of a Deployment's containers; None for a value that is read from another
object."""
_INDECISIVE = {Variable.ADMISSION_TABLE, Variable.CERTIFICATE_MODE, Variable.TEARDOWN_NAMESPACE}
_DECISIVE = tuple(variable for variable in Variable if variable not in _INDECISIVE)
"""Variables on which decisions depend."""
_VALUES: Mapping[Variable, str] = {
    Variable.ALLOW_EVICTION: "eviction.enabled",
    Variable.ALLOW_TEARDOWN_JOBS: "teardown.jobs.enabled",
    Variable.MEMORY_UNIT: "memoryUnit",
    Variable.ON_NO_POOL: "webhook.onNoPool",
    Variable.NVIDIA_NAMESPACE: "nvidia.namespace",
    Variable.SCHEDULERS: "webhook.schedulers",
}
"""Chart value of each variable that the chart sets."""
ROUTED_BY = tuple(_VALUES)
"""Variables on which the assignment of pods depends, and whether they fit."""
PLANNED_BY = (
    *(Variable.ALLOW_EVICTION, Variable.ALLOW_TEARDOWN_JOBS),
    *(Variable.MEMORY_UNIT, Variable.NVIDIA_NAMESPACE),
)
"""Variables on which changes of nodes depend."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A value, and where it is from."""

    value: Any
    """The value, of the type that `Settings` has."""
    source: str
    """A Deployment; `DEFAULT` where an installation does not set it, `ASSUMED` where that can't be
    read."""


@dataclass(frozen=True, slots=True)
class KnownSetup:
    """The settings on which decisions depend, each with its source."""

    settings: Mapping[Variable, Setting]
    unread_settings: str = ""
    """Why some settings are assumed; empty if none is."""

    @property
    def setup(self) -> Settings:
        """The values, as a process has them."""
        return Settings(**{_find_name(key): of.value for key, of in self.settings.items()})

    def tell_assumed(self, variables: Sequence[Variable]) -> str:
        """Say which of these were assumed, and why; empty where none was."""
        assumed = [each for each in variables if self.settings[each].source == ASSUMED]
        told = ", ".join(map(self._tell, assumed))
        return f"Assumed because {self.unread_settings}: {told}" if assumed else ""

    def tell_sources(self, variables: Sequence[Variable]) -> str:
        """Say the value of each of these, by its source."""
        by_source: dict[str, list[str]] = {}
        for variable in variables:
            by_source.setdefault(self.settings[variable].source, []).append(self._tell(variable))
        return "; ".join(f"{source}: {', '.join(told)}" for source, told in by_source.items())

    @property
    def elsewhere(self) -> str:
        """Why the plugins are unknown; empty where they are in the namespace that commands read."""
        namespace = self._get(Variable.PLUGIN_NAMESPACE)
        if namespace == names.PLUGIN_NAMESPACE:
            return ""
        return (
            f"The device plugins are unknown: they run in namespace {namespace}, but commands read "
            f"{names.PLUGIN_NAMESPACE}"
        )

    def _tell(self, variable: Variable) -> str:
        value = self._get(variable)
        shown = ", ".join(value) if isinstance(value, tuple) else str(value)
        return (
            f"{_VALUES[variable]} {shown.lower() if isinstance(value, bool) else shown or 'unset'}"
        )

    def _get(self, variable: Variable) -> Any:
        return self.settings[variable].value


def read_setup(
    deployments: Mapping[str, Variables] | None, snapshot: ClusterSnapshot
) -> KnownSetup:
    """Read the settings from the operator's `deployments`, by name; None where they can't be read.

    What they don't set has its default; if there are none, or a value can't be read, it is assumed
    from `snapshot`.
    """
    assumed = {variable: Setting(value, ASSUMED) for variable, value in _assume(snapshot).items()}
    if not deployments:
        lacks = "exists" if deployments is not None else "can be read"
        return KnownSetup(assumed, f"no Deployment of the operator {lacks}")
    settings = {variable: Setting(_find_field(variable).default, DEFAULT) for variable in _DECISIVE}
    unread = []
    for name, variables in sorted(deployments.items()):
        for variable in sorted(settings.keys() & variables.keys()):
            try:
                settings[variable] = Setting(_parse(variable, variables[variable]), name)
            except ValueError:
                settings[variable] = assumed[variable]
                unread.append(f"{variable} of {name}")
    unread_settings = f"{', '.join(unread)} can't be read" if unread else ""
    return KnownSetup(settings, unread_settings)


def _parse(variable: Variable, text: str | None) -> Any:
    """Parse the value as the operator's own process does. Raises ValueError."""
    if text is None:
        raise ValueError("it is read from elsewhere")
    return getattr(Settings.read({variable: text}), _find_name(variable))


def _find_name(variable: Variable) -> str:
    return variable.removeprefix(SETTINGS_PREFIX).lower()


def _find_field(variable: Variable) -> FieldInfo:
    return Settings.model_fields[_find_name(variable)]


def _assume(snapshot: ClusterSnapshot) -> dict[Variable, Any]:
    """Assume the defaults, but a switch on where a pool that a controller has seen asks for what it
    allows, and the pool's status does not say that it is off."""
    told = {sample.reason for pool in snapshot.pools for sample in pool.status.samples}
    seen = [
        pool.spec
        for pool in snapshot.pools
        if pool.status.conditions and pool.status.observed_generation >= pool.generation
    ]
    evicts = any(
        spec.rollout.workloads is WorkloadPolicy.EVICT
        or spec.rollout.stale_workloads is StaleWorkloadPolicy.EVICT
        for spec in seen
    )
    tears_down = any(spec.isolation_teardown.policy is TeardownPolicy.JOB for spec in seen)
    return {
        **{variable: _find_field(variable).default for variable in _DECISIVE},
        Variable.MEMORY_UNIT: guess_unit(snapshot),
        Variable.ALLOW_EVICTION: evicts and Reason.EVICTION_DISABLED not in told,
        Variable.ALLOW_TEARDOWN_JOBS: tears_down and Reason.TEARDOWN_DISABLED not in told,
    }


def guess_unit(snapshot: ClusterSnapshot) -> MemoryUnit:
    """Return the unit of most nodes."""
    sums = MemorySums()
    for node in snapshot.nodes.values():
        sums.count(observe_node_capacity(node, ()))
    return sums.usual_unit
