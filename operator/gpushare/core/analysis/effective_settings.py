"""How an installation is set up, value by value, and who says so.

That is written in the variables of the operator's Deployments. Where nobody can read those it is
assumed: the defaults of the chart, but for what nodes and pools let one guess.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any

from pydantic import TypeAdapter, ValidationError

from gpushare import names
from gpushare.api.pool import Pool
from gpushare.api.rollout import StaleWorkloadPolicy, TeardownPolicy, WorkloadPolicy
from gpushare.api.variables import Variable
from gpushare.core.admission.request import Rules
from gpushare.core.analysis.setup import Setup, guess_unit
from gpushare.core.snapshot.cluster import ClusterSnapshot
from gpushare.core.snapshot.node import Timing
from gpushare.names import SETTINGS_PREFIX, Reason
from gpushare.settings import Settings

ASSUMED = "assumed"
DEFAULT = "default"
Variables = Mapping[str, str | None]
"""Of a Deployment's containers; None where a value is read from elsewhere."""
_INDECISIVE = (Variable.CERTIFICATE_MODE, Variable.TEARDOWN_NAMESPACE)
_DECISIVE = tuple(variable for variable in Variable if variable not in _INDECISIVE)
"""Those on which decisions depend."""
_VALUES: Mapping[Variable, str] = {
    Variable.ALLOW_EVICTION: "eviction.enabled",
    Variable.ALLOW_TEARDOWN_JOBS: "teardown.jobs.enabled",
    Variable.MEMORY_UNIT: "memoryUnit",
    Variable.ON_NO_POOL: "webhook.onNoPool",
    Variable.SCHEDULERS: "webhook.schedulers",
}
"""What the chart calls those that it sets."""
ROUTED_BY = tuple(_VALUES)
"""On what it depends where a pod goes, and whether it fits there."""
PLANNED_BY = (Variable.ALLOW_EVICTION, Variable.ALLOW_TEARDOWN_JOBS, Variable.MEMORY_UNIT)
"""On what it depends what is done to nodes."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A value, and who says so."""

    value: Any
    """As `Settings` has it."""
    source: str
    """A Deployment; `DEFAULT` where an installation does not set it, and `ASSUMED` where nobody
    says."""


@dataclass(frozen=True, slots=True)
class KnownSetup:
    """A `Setup`, value by value, with where each is from."""

    settings: Mapping[Variable, Setting]
    unread_settings: str = ""
    """Why some are assumed; empty where none is."""

    @property
    def setup(self) -> Setup:
        """What a planner is made of."""

        def wait(variable: Variable) -> timedelta:
            return timedelta(seconds=self._get(variable))

        return Setup(
            memory_unit=self._get(Variable.MEMORY_UNIT),
            may_evict=self._get(Variable.ALLOW_EVICTION),
            may_tear_down=self._get(Variable.ALLOW_TEARDOWN_JOBS),
            timing=Timing(
                backoff=wait(Variable.BACKOFF_SECONDS),
                ready_timeout=wait(Variable.READY_TIMEOUT_SECONDS),
                settle=wait(Variable.RESOURCE_SETTLE_SECONDS),
                release_patience=wait(Variable.RELEASE_PATIENCE_SECONDS),
                zero_patience=wait(Variable.ZERO_PATIENCE_SECONDS),
            ),
            recheck=wait(Variable.RECHECK_SECONDS),
            rules=Rules(
                denies=self._get(Variable.ON_NO_POOL) == names.ON_NO_POOL_DENY,
                schedulers=frozenset(self._get(Variable.SCHEDULERS)),
            ),
            plugin_namespace=self._get(Variable.PLUGIN_NAMESPACE),
        )

    def tell_assumed(self, variables: Sequence[Variable]) -> str:
        """Which of these were assumed, and why; empty where none was."""
        assumed = [each for each in variables if self.settings[each].source == ASSUMED]
        told = ", ".join(map(self._tell, assumed))
        return f"assumed, since {self.unread_settings}: {told}" if assumed else ""

    def tell_sources(self, variables: Sequence[Variable]) -> str:
        """The value of each of these, by where it is from."""
        by_source: dict[str, list[str]] = {}
        for variable in variables:
            by_source.setdefault(self.settings[variable].source, []).append(self._tell(variable))
        return "; ".join(f"{source}: {', '.join(told)}" for source, told in by_source.items())

    @property
    def plugin_daemonsets(self) -> Mapping[str, str]:
        """What the cluster calls the DaemonSets of the device plugins, by their standard names."""
        found: Mapping[str, str] = self._get(Variable.PLUGIN_DAEMONSETS)
        return found

    @property
    def elsewhere(self) -> str:
        """Why nothing true can be said of the plugins; empty where they are where one looks."""
        namespace = self._get(Variable.PLUGIN_NAMESPACE)
        if namespace == names.PLUGIN_NAMESPACE:
            return ""
        return f"the installation's are in {namespace}, and commands read {names.PLUGIN_NAMESPACE}"

    def _tell(self, variable: Variable) -> str:
        value = self._get(variable)
        shown = ", ".join(value) if isinstance(value, tuple) else str(value)
        return f"{_VALUES[variable]} {shown.lower() if isinstance(value, bool) else shown}"

    def _get(self, variable: Variable) -> Any:
        return self.settings[variable].value


def read_setup(
    deployments: Mapping[str, Variables] | None, snapshot: ClusterSnapshot
) -> KnownSetup:
    """As the operator's `deployments` say, by what each is called; None where nobody may look.

    What they don't say has its default; if there are none, or a value can't be read, it is assumed
    by what `snapshot` tells.
    """
    assumed = {variable: Setting(value, ASSUMED) for variable, value in _assume(snapshot).items()}
    if not deployments:
        lacks = "is there" if deployments is not None else "can be read"
        return KnownSetup(assumed, f"no Deployment of the operator {lacks}")
    settings = {variable: Setting(_get_default(variable), DEFAULT) for variable in _DECISIVE}
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
    """The value, as the operator's own process reads it. Raises ValueError."""
    if text is None:
        raise ValueError("it is read from elsewhere")
    known = Settings.model_fields[_get_field(variable)]
    is_json = isinstance(known.default, tuple | Mapping)
    kind: Any = Annotated[known.annotation, known]
    try:
        return TypeAdapter(kind).validate_python(json.loads(text) if is_json else text)
    except ValidationError as error:
        raise ValueError(str(error)) from error


def _get_default(variable: Variable) -> Any:
    return Settings.model_fields[_get_field(variable)].default


def _get_field(variable: Variable) -> str:
    return variable.removeprefix(SETTINGS_PREFIX).lower()


def _assume(snapshot: ClusterSnapshot) -> dict[Variable, Any]:
    """The defaults; but a switch is on where a pool that a controller has seen asks for what it
    allows, and the pool's status does not say that it is off."""
    told = {sample.reason for pool in snapshot.pools for sample in pool.status.samples}
    asked = {each for pool in snapshot.pools for each in _list_asked(pool)}
    return {
        **{variable: _get_default(variable) for variable in _DECISIVE},
        Variable.MEMORY_UNIT: guess_unit(snapshot),
        Variable.ALLOW_EVICTION: Variable.ALLOW_EVICTION in asked
        and Reason.EVICTION_DISABLED not in told,
        Variable.ALLOW_TEARDOWN_JOBS: Variable.ALLOW_TEARDOWN_JOBS in asked
        and Reason.TEARDOWN_DISABLED not in told,
    }


def _list_asked(pool: Pool) -> Iterator[Variable]:
    """The switches without which a controller that has seen the pool would say so."""
    if not pool.status.conditions or pool.status.observed_generation < pool.generation:
        return
    rollout = pool.spec.rollout
    if (
        rollout.workloads is WorkloadPolicy.EVICT
        or rollout.stale_workloads is StaleWorkloadPolicy.EVICT
    ):
        yield Variable.ALLOW_EVICTION
    if pool.spec.isolation_teardown.policy is TeardownPolicy.JOB:
        yield Variable.ALLOW_TEARDOWN_JOBS
