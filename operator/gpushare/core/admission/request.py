"""A pod under admission, with everything that the decision depends on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import msgspec

from gpushare import names
from gpushare.api.k8s.namespace import Namespace
from gpushare.api.k8s.pod_request import PodRequest
from gpushare.core.admission.gangs import Gang
from gpushare.core.admission.pool_view import Labels, PoolView
from gpushare.editions.registry import MODES
from gpushare.settings import Settings

_ISOLATING_LABELS = tuple(mode.labels for mode in MODES.values() if mode.isolated)
VERIFIED: Labels = ((names.LABEL_ISOLATION_VERIFIED, names.VERIFIED),)
"""Label of nodes whose mode isolates and is verified."""
NO_RESERVATIONS: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of the installation."""

    denies: bool = False
    """Pods that no pool takes are refused, where their namespace says nothing."""
    schedulers: frozenset[str] = frozenset({names.DEFAULT_SCHEDULER})
    """Schedulers that allocate GPU memory by card."""


def build_rules(settings: Settings) -> Rules:
    """Build the rules of admission from the settings."""
    return Rules(
        denies=settings.on_no_pool == names.ON_NO_POOL_DENY,
        schedulers=frozenset(settings.schedulers),
    )


class AdmissionRequest(msgspec.Struct, frozen=True):
    """A pod, its namespace, and the pools that there are."""

    pod: PodRequest
    namespace: Namespace
    pools: Sequence[PoolView]
    rules: Rules
    reserved: Mapping[str, int]
    """Units of gpu-mem by pool that were given away and its capacity does not show yet."""
    gang: Gang | None = None
    """The pods that run together with the pod."""

    @property
    def denies(self) -> bool:
        """Whether the pod is refused if no pool takes it; the namespace's label has precedence."""
        if self.namespace.on_no_pool in (names.ON_NO_POOL_ALLOW, names.ON_NO_POOL_DENY):
            return self.namespace.on_no_pool == names.ON_NO_POOL_DENY
        return self.rules.denies

    def find(self, name: str) -> PoolView | None:
        """Find the pool of that name."""
        return next((pool for pool in self.pools if pool.name == name), None)

    def missing(self, labels: Labels) -> Labels:
        """List the labels that the pod's node selector lacks."""
        selected = self.pod.selection.labels
        if not selected:
            return labels
        return tuple((key, value) for key, value in labels if selected.get(key) != value)

    @property
    def denies_verified(self) -> bool:
        """Whether the pod's node selector wants nodes whose isolation is not verified."""
        return names.LABEL_ISOLATION_VERIFIED in self.pod.selection.labels and bool(
            self.missing(VERIFIED)
        )

    def is_isolated(self, selector: Labels = ()) -> bool:
        """Tell whether the pod's node selector, with `selector` added, selects an isolated mode."""
        selected = {**self.pod.selection.labels, **dict(selector)}
        return any(labels.items() <= selected.items() for labels in _ISOLATING_LABELS)


def select(pool: PoolView, pod: PodRequest) -> Labels:
    """List the node labels that a pod needs in its node selector to be assigned to `pool`.

    For required isolation the mode too, since a pool whose mode is being changed still has nodes
    in the other one.
    """
    if pod.asks_for_share and pod.requires_isolation and not pool.selects_mode:
        return pool.binding + pool.mode_labels
    return pool.binding
