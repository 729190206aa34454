"""Derives how a pool wants a node changed, and what counts as another attempt at it."""

import hashlib
from dataclasses import dataclass, field
from datetime import timedelta

from gpushare.api.k8s.node import Node
from gpushare.api.pool import ConflictPolicy, ModeName, Pool, RestartPolicy
from gpushare.api.rollout import FailurePolicy, RebootPolicy, TeardownPolicy, WorkloadPolicy
from gpushare.core.ownership.drift import Enforcement
from gpushare.core.rollout.change_kinds import ChangeKind
from gpushare.core.snapshot.node import Timing
from gpushare.editions.edition import Outcome


@dataclass(frozen=True, slots=True)
class Policy:
    """The fields of a pool's spec that decide about the change of one node."""

    claim: Enforcement = field(default_factory=Enforcement)
    attempt: str = ""
    """A change that failed is tried again once this is another one."""
    ready_timeout: timedelta = timedelta(minutes=10)
    workloads: WorkloadPolicy = WorkloadPolicy.WAIT
    rolls_back: bool = False
    """A change that failed is taken back."""
    may_restart: bool = True
    """The device plugin may be restarted."""
    teardown: TeardownPolicy = TeardownPolicy.MANUAL
    reboot: RebootPolicy = RebootPolicy.MANUAL

    @property
    def stays_cordoned(self) -> bool:
        """Whether the node is cordoned before pods that block its change have ended."""
        return self.workloads is not WorkloadPolicy.WAIT

    def kind_of(self, from_mode: ModeName, to: ModeName, outcome: Outcome) -> ChangeKind:
        """Return the kind of a change: approving one by hand does not approve privileged Jobs."""
        teardown = ""
        if outcome is Outcome.REQUIRES_TEARDOWN:
            teardown = f"teardown {self.teardown}"
            if self.teardown is TeardownPolicy.JOB:
                teardown += f", reboot {self.reboot}"
        return ChangeKind(from_mode, to, outcome, self.workloads, teardown)


def build_policy(pool: Pool | None, node: Node, timing: Timing) -> Policy:
    """Build the policy for `node`; without a pool, the default."""
    if pool is None:
        return Policy(ready_timeout=timing.ready_timeout)
    rollout = pool.spec.rollout
    return Policy(
        claim=build_claim(pool),
        attempt=build_attempt(pool, node.retry),
        ready_timeout=find_ready_timeout(pool, timing),
        workloads=rollout.workloads,
        rolls_back=rollout.on_failure is FailurePolicy.ROLLBACK,
        may_restart=pool.spec.device_plugin.restart is not RestartPolicy.NEVER,
        teardown=pool.spec.isolation_teardown.policy,
        reboot=pool.spec.isolation_teardown.reboot,
    )


def find_ready_timeout(pool: Pool, timing: Timing) -> timedelta:
    """Find how long a change may take from its labels on; the pool's own goes first."""
    seconds = pool.spec.rollout.ready_timeout_seconds
    return timing.ready_timeout if seconds is None else timedelta(seconds=seconds)


def build_claim(pool: Pool) -> Enforcement:
    """Build the claim by which the labels of `pool` are held."""
    force = pool.spec.conflicts is ConflictPolicy.FORCE
    return Enforcement(spec=f"{pool.name}/{pool.generation}", force=force)


def build_attempt(pool: Pool, node_retry: str) -> str:
    """Name the attempt: the spec's generation, with a mark of the retry annotations."""
    spec = f"{pool.name}/{pool.generation}"
    if not (pool.retry or node_retry):
        return spec
    mark = hashlib.sha256(f"{pool.retry}\n{node_retry}".encode()).hexdigest()[:8]
    return f"{spec}/{mark}"
