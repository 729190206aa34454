"""Actions of users, machines and workloads in a simulated cluster, as rules of a state machine."""

from abc import abstractmethod
from dataclasses import replace
from datetime import timedelta

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from gpushare import names
from gpushare.api.k8s.pod import Pod
from gpushare.api.pool import Edition, PoolSpec
from gpushare.api.windows import Freeze
from tests.kit.histories import simulated_cluster as sim
from tests.kit.histories import simulated_kubelets
from tests.kit.histories.field_ownership import CORDON
from tests.kit.histories.invariants import InvariantChecker
from tests.kit.histories.maintenance import MaintenanceController
from tests.kit.values.objects import NOW, a_pool

NODES = MaintenanceController.NODES
POOLS = ("training", "inference")
SCHEDULES = ("default", "share", "cgpu")
MODES = ("none", *SCHEDULES)
"""Modes of new nodes; `none`: without a label."""
_SHARED, _UNISOLATED = names.LABEL_CGPU, names.LABEL_CGPU_DISABLE_ISOLATION
LABELS: dict[tuple[Edition, str], dict[str, str]] = {
    (Edition.PROFESSIONAL, "none"): {},
    (Edition.PROFESSIONAL, "default"): {names.LABEL_SCHEDULE: "default"},
    (Edition.PROFESSIONAL, "share"): {names.LABEL_SCHEDULE: "share"},
    (Edition.PROFESSIONAL, "cgpu"): {names.LABEL_SCHEDULE: "cgpu"},
    (Edition.BASIC, "none"): {_SHARED: "false"},
    (Edition.BASIC, "default"): {_SHARED: "false"},
    (Edition.BASIC, "share"): {_SHARED: "true", _UNISOLATED: "true"},
    (Edition.BASIC, "cgpu"): {_SHARED: "true"},
    (Edition.NVIDIA, "none"): {},
    **{(Edition.NVIDIA, key): {sim.CONFIG: key} for key in SCHEDULES},
}

a_node_name = st.sampled_from(NODES)
a_pool_name = st.sampled_from(("training", *POOLS))
a_group = st.sampled_from(("a", "b"))
a_mode = st.sampled_from(MODES)
_NIGHT = {"schedule": "0 22 * * *", "duration": "4h", "time_zone": "Asia/Shanghai"}
_OFTEN = {"schedule": "*/40 * * * *", "duration": "15m"}
_SHORT = {"schedule": "*/20 * * * *", "duration": "1m"}
"""A window that is too short, except for a pool with a short deadline."""
_AN_HOUR = {"reason": "an incident", "until": NOW + timedelta(hours=1)}
a_rollout = st.fixed_dictionaries(
    {
        "max_unavailable": st.sampled_from((1, 2, "50%")),
        "canary": st.sampled_from((0, 1, 2)),
        "ready_timeout_seconds": st.sampled_from((None, 30)),
        "on_failure": st.sampled_from(("Halt", "Rollback")),
        "approval": st.sampled_from((*["Automatic"] * 4, "Manual")),
        "workloads": st.sampled_from(("Wait", "CordonAndWait", "Evict")),
        "windows": st.sampled_from((*[()] * 5, [_NIGHT], [_OFTEN], [_SHORT], [_SHORT, _OFTEN])),
        "new_nodes": st.sampled_from(("Anytime", "InWindow")),
        "freeze": st.sampled_from((*[None] * 9, {"reason": "an incident"}, _AN_HOUR)),
    }
)
a_consent = st.fixed_dictionaries(
    {
        "device_plugin": st.sampled_from(
            [{"restart": each} for each in (*["OnIsolationChange"] * 4, "Never")]
        ),
        "isolation_teardown": st.sampled_from(
            ({"policy": "Manual"}, {"policy": "Job"}, {"policy": "Job", "reboot": "Sentinel"})
        ),
    }
)
"""Settings of a pool that restrict the operator."""


class Disturbances(MaintenanceController):
    """A cluster of nodes in two groups, with up to two pools; inapplicable rules do nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster = sim.Cluster()
        self.checker = InvariantChecker()
        self.pace = 0
        """Number of passes of the operator after each rule, besides passes that are rules."""
        self._count = 0

    @initialize(
        edition=st.sampled_from((*[Edition.PROFESSIONAL] * 2, Edition.BASIC, Edition.NVIDIA)),
        returning_seconds=st.sampled_from((1, 5, 40)),
        reporting_seconds=st.sampled_from((1, 3, 9)),
        modes=a_mode.map(lambda mode: [mode] * len(NODES))
        | st.lists(a_mode, min_size=len(NODES), max_size=len(NODES)),
        schedule=st.sampled_from(SCHEDULES),
        rollout=a_rollout,
        is_settled=st.sampled_from((True, True, False)),
        conflict=st.sampled_from((None, None, 100, 200)),
        pace=st.sampled_from((0, 0, 2)),
        consent=a_consent,
        working_seconds=st.sampled_from((5, 5, 100)),
        may_evict=st.sampled_from((True, True, False)),
        may_tear_down=st.sampled_from((True, True, False)),
    )
    def begin(
        self,
        edition: Edition,
        returning_seconds: int,
        reporting_seconds: int,
        modes: list[str],
        schedule: str,
        rollout: dict[str, object],
        is_settled: bool,
        pace: int,
        conflict: int | None = None,
        consent: dict[str, object] | None = None,
        working_seconds: int = 5,
        may_evict: bool = True,
        may_tear_down: bool = True,
    ) -> None:
        """Create a pool; `conflict` is the priority of an equally old pool for the same nodes."""
        self.cluster = sim.Cluster(
            edition=edition,
            returning=timedelta(seconds=returning_seconds),
            reporting=timedelta(seconds=reporting_seconds),
            working=timedelta(seconds=working_seconds),
            may_evict=may_evict,
            may_tear_down=may_tear_down,
        )
        self.restart_operator()
        for node, mode in zip(NODES, modes, strict=True):
            self.add_node(node, "a", mode)
        self.cluster = simulated_kubelets.elapse(self.cluster, 60)
        spec = {"schedule": schedule, "nodes": _of_groups("a"), "rollout": rollout}
        self.put_pool("training", **spec, **consent or {})
        if conflict is not None:
            self.put_pool("inference")
        if is_settled:
            self.come_to_rest()
        if conflict is not None:
            self.put_pool("inference", nodes=_of_groups("a"), priority=conflict)
        self.pace = pace

    @abstractmethod
    def restart_operator(self) -> None:
        """Restart the operator's process."""

    @abstractmethod
    def come_to_rest(self) -> None:
        """Run the operator until nothing is left to do."""

    # People.

    def change_schedule(self, name: str, schedule: str) -> None:
        self.put_pool(name, schedule=schedule)

    @rule(
        name=a_pool_name,
        groups=st.sampled_from(("a", "b", "ab")),
        priority=st.sampled_from((100, 200)),
        deletion_policy=st.sampled_from(("Retain", "WholeCard", "Restore")),
        conflicts=st.sampled_from(("Report", "Force")),
        reconcile=st.sampled_from((*["Enforce"] * 6, "Paused", "Observe")),
    )
    def edit_pool(self, name: str, groups: str, **spec: object) -> None:
        self.put_pool(name, nodes=_of_groups(*groups), **spec)

    @rule(name=a_pool_name, spec=a_consent | a_rollout.map(lambda rollout: {"rollout": rollout}))
    def edit_rollout(self, name: str, spec: dict[str, object]) -> None:
        self.put_pool(name, **spec)

    @rule(name=a_pool_name)
    def approve(self, name: str) -> None:
        """Approve the plan as a user."""
        pool = self.cluster.pools.get(name)
        if pool is not None and pool.status.plan is not None and pool.status.plan.hash:
            self.checker.note_approval(pool)
            agreed = {"approved_plan": pool.status.plan.hash}
            self.put_pool(name, rollout=pool.spec.rollout.model_dump() | agreed)

    @rule(name=a_pool_name, hours=st.sampled_from((0, 0, 0, 2)))
    def start_now(self, name: str, hours: int) -> None:
        """Start the plan as a user; an annotation of some `hours` ago has no effect."""
        pool = self.cluster.pools.get(name)
        if pool is not None and pool.status.plan is not None and pool.status.plan.hash:
            said_at = self.cluster.now - timedelta(hours=hours)
            value = f"{pool.status.plan.hash}@{said_at.isoformat()}"
            if not hours:
                self.checker.note_start(pool, value)
            self.cluster = sim.put_pool(self.cluster, pool.model_copy(update={"start_now": value}))

    @rule(minutes=st.sampled_from((0, 0, 5, 60, None)))
    def freeze_all(self, minutes: int | None) -> None:
        """Freeze all pools for `minutes`, or without an end."""
        until = None if minutes is None else self.cluster.now + timedelta(minutes=minutes)
        self.cluster = replace(self.cluster, freeze=Freeze(reason="an incident", until=until))

    @rule(name=a_pool_name)
    def delete_pool(self, name: str) -> None:
        pool = self.cluster.pools.get(name)
        if pool is not None and not pool.deleting:
            # Being deleted is a new generation too.
            gone = {"deleting": True, "generation": pool.generation + 1}
            self.cluster = sim.put_pool(self.cluster, pool.model_copy(update=gone))

    def retry_pool(self, name: str) -> None:
        if (pool := self.cluster.pools.get(name)) is not None:
            again = pool.model_copy(update={"retry": f"again-{self._next()}"})
            self.cluster = sim.put_pool(self.cluster, again)

    def retry_node(self, node: str) -> None:
        if node in self.cluster.nodes:
            value = f"again-{self._next()}"
            self.cluster = sim.write_node(self.cluster, node, names.ANNOTATION_RETRY, value)

    def remove_record(self, node: str) -> None:
        """Remove the record of the node's change, as a policy or client that nobody names."""
        if node in self.cluster.nodes:
            self.cluster = sim.write_node(self.cluster, node, names.ANNOTATION_CHANGE, None)

    @rule(node=a_node_name, group=a_group)
    def move_node(self, node: str, group: str) -> None:
        if node in self.cluster.nodes:
            self.cluster = sim.write_node(self.cluster, node, "group", group)

    def cordon(self, node: str, is_applied: bool) -> None:
        if node not in self.cluster.nodes:
            return
        if is_applied:
            self.cluster = sim.cordon_as(self.cluster, node, "gitops")
        else:
            self.cluster = sim.write_node(self.cluster, node, CORDON, "true", "kubectl-cordon")

    def uncordon(self, node: str) -> None:
        if node in self.cluster.nodes:
            self.cluster = sim.write_node(self.cluster, node, CORDON, None)

    @rule(node=a_node_name, mode=a_mode, manager=st.sampled_from(("kubectl-label", "autoscaler")))
    def label_by_hand(self, node: str, mode: str, manager: str) -> None:
        edition = self.cluster.edition
        if node not in self.cluster.nodes:
            return
        self.checker.note_labelling(node, self.cluster)
        for key in sorted({key for (of, _), own in LABELS.items() if of is edition for key in own}):
            value = LABELS[edition, mode].get(key)
            self.cluster = sim.write_node(self.cluster, node, key, value, manager)

    @rule(node=a_node_name, value=st.sampled_from((None, *POOLS)))
    def label_pool_by_hand(self, node: str, value: str | None) -> None:
        if node in self.cluster.nodes:
            self.cluster = sim.write_node(self.cluster, node, names.LABEL_POOL, value)

    @rule(node=a_node_name, key=st.sampled_from(("group", "rack")), value=a_group)
    def label_for_others(self, node: str, key: str, value: str) -> None:
        """Change a label of others: pools select nodes by `group`, nothing reads `rack`."""
        if node in self.cluster.nodes:
            self.cluster = sim.write_node(self.cluster, node, key, value)

    def speak_of_teardown(self, node: str, word: str) -> None:
        """Set the annotation of a teardown as a user, also where it is wrong."""
        if node not in self.cluster.nodes:
            return
        if word == names.TEARDOWN_DONE:
            self.checker.note_word(node, self.cluster)
        key = names.ANNOTATION_TEARDOWN
        self.cluster = sim.write_node(self.cluster, node, key, word)

    def remove_module(self, node: str) -> None:
        """Run the commands of a teardown as a user."""
        if not any(pod.daemonset == sim.INSTALLER for pod in self.cluster.pods_on(node)):
            self.cluster = sim.remove_module(self.cluster, node)

    @rule(data=st.data(), is_present=st.booleans())
    def set_daemonset(self, data: st.DataObject, is_present: bool) -> None:
        name = data.draw(st.sampled_from(sorted(sim.DAEMONSETS[self.cluster.edition])))
        self.cluster = sim.set_daemonset(self.cluster, name, present=is_present)

    # Machines.

    @rule(node=a_node_name, group=a_group, mode=a_mode)
    def add_node(self, node: str, group: str, mode: str) -> None:
        if node not in self.cluster.nodes:
            labels = {"group": group, **LABELS[self.cluster.edition, mode]}
            self.cluster = sim.add_node(self.cluster, node, labels)

    @rule(node=a_node_name)
    def remove_node(self, node: str) -> None:
        if node in self.cluster.nodes:
            self.cluster = sim.remove_node(self.cluster, node)

    def set_ready(self, node: str, ready: bool) -> None:
        if node in self.cluster.nodes:
            self.cluster = sim.set_ready(self.cluster, node, ready=ready)

    def reboot(self, node: str) -> None:
        if node in self.cluster.nodes:
            self.cluster = sim.reboot_node(simulated_kubelets.elapse(self.cluster, 0), node)

    def restart_containers(self, node: str) -> None:
        if node in self.cluster.nodes:
            self.cluster = sim.restart_containers(simulated_kubelets.elapse(self.cluster, 0), node)

    def delete_plugins(self, node: str) -> None:
        for pod in self.cluster.pods_on(node):
            if pod.daemonset:
                self.cluster = sim.delete_pod(self.cluster, pod.uid)

    def set_fault(self, node: str, fault: sim.Fault, is_present: bool) -> None:
        if node in self.cluster.nodes:
            self.cluster = sim.set_fault(self.cluster, node, fault, present=is_present)

    def touch_node(self, node: str) -> None:
        if node in self.cluster.nodes:
            self.cluster = sim.touch_node(self.cluster, node)

    # Workloads.

    @rule(
        node=a_node_name,
        is_late=st.booleans(),
        is_strict=st.booleans(),
        selects=st.sampled_from((names.LABEL_POOL, names.LABEL_SCHEDULE, names.LABEL_CGPU, "")),
    )
    def bind_pod(self, node: str, is_late: bool, is_strict: bool, selects: str) -> None:
        """Bind a pod; with `is_late` the scheduler decided before the node was cordoned."""
        known = self.cluster.nodes.get(node)
        if known is None or not known.ready or not known.allocatable:
            return
        if CORDON in known.fields and not is_late:
            return
        name, labels = f"train-{self._next()}", known.labels
        pod = Pod(
            "default",
            name,
            f"uid-of-{name}",
            node=node,
            requests={min(known.allocatable): 1},
            requires_isolation=is_strict,
            selects=frozenset({(selects, labels[selects])}) if selects in labels else frozenset(),
        )
        self.cluster = sim.bind_pod(self.cluster, pod)

    @rule()
    def end_pods(self) -> None:
        for uid, each in self.cluster.pods.items():
            if not each.pod.daemonset:
                self.cluster = sim.end_pod(self.cluster, uid)

    # What rules are made of.

    def mend(self) -> None:
        """Remove all obstacles and faults; users retry what failed."""
        for node in sorted(self.cluster.nodes):
            self.lift_faults(node)
            self.set_ready(node, ready=True)
            self.end_maintenance(node, is_unconditional=False, is_label_first=False)
            self.cluster = sim.lift_cordon(self.cluster, node)
            self.retry_node(node)
        for name, pool in self.cluster.pools.items():
            patient = pool.spec.rollout.model_dump() | {
                "ready_timeout_seconds": None,
                "freeze": None,
                "windows": [w for w in pool.spec.rollout.windows if w.duration != "1m"],
            }
            teardown = pool.spec.isolation_teardown.model_dump()
            if not self.cluster.may_tear_down:
                teardown["policy"] = "Manual"
            device_plugin = {"restart": "OnIsolationChange"}
            self.put_pool(
                name, rollout=patient, device_plugin=device_plugin, isolation_teardown=teardown
            )
            self.retry_pool(name)
            if pool.deleting:
                spec = pool.spec.model_dump() | {"rollout": patient}
                update = {"spec": PoolSpec.model_validate(spec), "generation": pool.generation + 1}
                self.cluster = sim.put_pool(self.cluster, pool.model_copy(update=update))
        self.cluster = replace(self.cluster, freeze=None)
        self.end_pods()
        for daemonset in self.cluster.missing:
            self.cluster = sim.set_daemonset(self.cluster, daemonset, present=True)

    def lift_faults(self, node: str) -> None:
        for fault in sim.Fault:
            self.set_fault(node, fault, is_present=False)

    def put_pool(self, name: str, **spec: object) -> None:
        """Update `spec` of a pool, unless the pool is being deleted."""
        known = self.cluster.pools.get(name)
        if self.cluster.edition is Edition.NVIDIA:
            spec = sim.adapt_spec(spec, is_new=known is None)
        if known is None:
            pool = a_pool(
                name,
                edition=str(self.cluster.edition),
                **{"schedule": "share", "nodes": _of_groups("b"), **spec},  # type: ignore[arg-type]
            )
            born = {"uid": f"{name}-{self._next()}", "created": self.cluster.now}
            self.cluster = sim.put_pool(self.cluster, pool.model_copy(update=born))
            return
        changed = PoolSpec.model_validate(known.spec.model_dump() | spec)
        if changed != known.spec and not known.deleting:
            update = {"spec": changed, "generation": known.generation + 1}
            self.cluster = sim.put_pool(self.cluster, known.model_copy(update=update))

    def _next(self) -> int:
        self._count += 1
        return self._count


def _of_groups(*groups: str) -> dict[str, object]:
    requirement = {"key": "group", "operator": "In", "values": groups}
    return {"selector": {"match_expressions": (requirement,)}}
