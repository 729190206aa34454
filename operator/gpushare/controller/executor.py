"""Carries out what was planned for one node."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from gpushare.api.k8s.job import parse_job
from gpushare.api.k8s.node import parse_node
from gpushare.api.k8s.pod import judge_claims
from gpushare.controller.informers import Informers
from gpushare.core.nodechange.phases.cordoned import plan_after_recheck
from gpushare.core.nodechange.phases.labelled import plan_restart
from gpushare.core.nodechange.phases.teardown import is_job_due
from gpushare.core.ownership.drift import describe_revert
from gpushare.core.records.change_record import ChangePhase
from gpushare.core.records.node_records import parse_records
from gpushare.core.snapshot.actions import (
    Action,
    ApplyNode,
    CreateJob,
    DeletePlugins,
    EvictPods,
    JobPhase,
    NamedPod,
    RecheckPods,
    RecordPlugins,
    ReleaseNode,
)
from gpushare.core.snapshot.node import NodeSnapshot, Timing
from gpushare.core.snapshot.write_outcome import WriteOutcome, judge_write
from gpushare.kube.client import ApiClient
from gpushare.kube.errors import ApiError, EvictionRefusedError, JobTakenError
from gpushare.kube.events import Events, ObjectReference
from gpushare.kube.resources.jobs import create_job
from gpushare.kube.resources.nodes import PATH as NODES
from gpushare.kube.resources.nodes import apply_node, release_node
from gpushare.kube.resources.pods import delete_plugin, evict_pod, list_pods_on_node
from gpushare.names import Reason
from gpushare.observe.metrics.controller import ControllerMetrics
from gpushare.render.teardown import render_teardown_job
from gpushare.settings import Settings

log = logging.getLogger(__name__)

GONE_SECONDS = 0.5
REFUSALS_SHOWN = 3
NO_CHANGE_SECONDS = 5.0
"""Seconds before a node is decided again after a write that changed nothing."""


@dataclass(slots=True)
class Executor:
    """Turns an action into calls, and shows their answers to the caches at once.

    Writes, reads of a node, and evictions, which may take the API server 10 s each, have a limit
    each. A task waits for one of them at a time, so no kind holds up another.
    """

    api: ApiClient
    informers: Informers
    settings: Settings
    timing: Timing
    metrics: ControllerMetrics
    events: Events
    _writes: asyncio.Semaphore = field(init=False)
    _reads: asyncio.Semaphore = field(init=False)
    _evictions: asyncio.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        limit = self.settings.write_concurrency
        self._writes, self._reads = asyncio.Semaphore(limit), asyncio.Semaphore(limit)
        self._evictions = asyncio.Semaphore(limit)

    async def carry_out(
        self, action: Action, *, pool: str, reason: Reason, is_wanted: Callable[[], bool]
    ) -> float:
        """Do `action` for `pool`; `reason` is why. Return the seconds for which the node must rest
        then. Each write that changes something is a line of the log.

        Where that takes a while, `is_wanted` is asked before the write: the pool may want
        something else by then.

        Raises `ApiError`, `EvictionRefusedError`, `JobTakenError` or aiohttp's errors; whatever
        was not done is planned anew.
        """
        rest_seconds = 0.0
        match action:
            case ApplyNode():
                rest_seconds = await self._apply(action, pool, reason)
            case RecheckPods():
                rest_seconds = await self._recheck_pods(action, pool, reason, is_wanted)
            case RecordPlugins():
                seen = await self._observe(action.node, ChangePhase.LABELLED, ChangePhase.REBOOTED)
                restart = plan_restart(seen, datetime.now(UTC)) if seen is not None else None
                if restart is not None:
                    rest_seconds = await self._apply(restart, pool, reason)
            case DeletePlugins():
                async with self._writes:
                    await self._delete_plugins(action, pool, reason)
            case EvictPods():
                await self._evict_pods(action, pool, reason, is_wanted)
            case CreateJob():
                seen = await self._observe(action.node, ChangePhase.LABELLED, ChangePhase.REBOOTED)
                if seen is not None and is_job_due(seen, action):
                    async with self._writes:
                        await self._create_job(action, pool, reason)
            case ReleaseNode():
                async with self._writes:
                    await self._release(action)
                if action.note:
                    note = f"Pool {pool} released the node. {action.note}"
                    self._tell_node(action.node, reason, note, warns=True)
        return rest_seconds

    async def relist(self, name: str) -> None:
        """Show the caches a node as it is now, ahead of a watch that may be behind for long."""
        async with self._reads:
            self.informers.nodes.offer(await self.api.get(f"{NODES}/{name}"))

    async def _apply(
        self,
        action: ApplyNode,
        pool: str,
        reason: Reason,
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> float:
        async with self._writes:
            if not is_wanted():
                return 0.0
            # Read before: the watch may show what is written before the answer comes.
            before = self.informers.nodes.records.get(action.node)
            node = await apply_node(self.api, action)
        self.informers.nodes.offer(node)
        is_changed = node["metadata"]["resourceVersion"] != action.resource_version
        if is_changed:
            log.info("%s", action.message)
        else:
            log.warning("a write changed nothing: %s", action.message)
        now = datetime.now(UTC)
        outcome = judge_write(before, action, now) if before is not None else WriteOutcome()
        self.metrics.observe_write(pool, reason, outcome)
        for flip in outcome.first_flips:
            # Where isolation is not verified, its label is removed, not put back.
            if (ours := action.labels.get(flip.key)) is not None:
                note = f"Pool {pool}: {describe_revert(flip, ours)}"
                self._tell_node(action.node, Reason.DRIFT_REVERTED, note, warns=True)
        if outcome.is_cordoned_again:
            note = f"Pool {pool}: The node was uncordoned during its change, and is cordoned again"
            self._tell_node(action.node, Reason.CORDONED_AGAIN, note, warns=True)
        # Somebody else holds what we let go of: without a pause this would be sent for ever.
        return 0.0 if is_changed else NO_CHANGE_SECONDS

    async def _release(self, action: ReleaseNode) -> None:
        released = await release_node(self.api, action)
        if released.node is not None:
            self.informers.nodes.offer(released.node)
        level = logging.INFO if released.is_changed else logging.DEBUG
        gone = f"labels removed: {', '.join(action.remove)}" if action.remove else "labels stay"
        log.log(level, "%s", "; ".join(filter(None, ("released", gone, action.note))))

    async def _recheck_pods(
        self, action: RecheckPods, pool: str, reason: Reason, is_wanted: Callable[[], bool]
    ) -> float:
        """Read the node's pods again: a binding under way during the cordon has arrived by now."""
        for gap in (0.0, self.timing.recheck.total_seconds()):
            await asyncio.sleep(gap)
            seen = await self._observe(action.node, ChangePhase.CORDONED)
            if seen is None:
                return 0.0
            plan = plan_after_recheck(
                seen,
                datetime.now(UTC),
                self.timing,
                stays=action.stays,
                may_restart=action.may_restart,
            )
            if plan is None or not plan.cordon:
                break
        return await self._apply(plan, pool, reason, is_wanted) if plan is not None else 0.0

    async def _observe(self, name: str, *steps: ChangePhase) -> NodeSnapshot | None:
        """Read the node and its pods from the API server; None if it is at none of these steps."""
        async with self._reads:
            listed = await list_pods_on_node(self.api, name, self.informers.parse_pod)
            raw = await self.api.get(f"{NODES}/{name}")
        # Where our copy is behind, it learns of it here: else the same would be tried for ever.
        self.informers.nodes.offer(raw)
        node = parse_node(raw)
        records = parse_records(node)
        if records.change is None or records.change.phase not in steps:
            return None
        dynamic = self.informers.dynamic
        pods = [judge_claims(pod, dynamic.claims) for pod in listed]
        slices = dynamic.slices.get(name, ())
        return NodeSnapshot(node, pods, records, resource_slices=slices)

    async def _delete_plugins(self, action: DeletePlugins, pool: str, reason: Reason) -> None:
        for plugin in action.plugins:
            try:
                answer = await delete_plugin(self.api, plugin)
            except ApiError as error:
                if not (error.is_not_found or error.is_conflict):
                    raise
                # Gone already, or another pod has its name by now; the watch is behind.
                await asyncio.sleep(GONE_SECONDS)
                continue
            if answer.get("kind") == "Pod":
                self.informers.pods.offer(answer)
            self.metrics.plugin_restarts.labels(pool, reason).inc()
            log.info("deleted plugin pod %s", plugin.name)
            note = (
                f"Pool {pool}: Deleted pod {plugin.name}, so that the device plugin reads "
                "the node's new labels"
            )
            self._tell_node(action.node, Reason.PLUGIN_RESTARTED, note)

    async def _evict_pods(
        self, action: EvictPods, pool: str, reason: Reason, is_wanted: Callable[[], bool]
    ) -> None:
        """Evict whatever may go; who is kept is told when all were asked for."""
        refused: list[str] = []
        for pod in action.pods:
            try:
                async with self._evictions:
                    if not is_wanted():
                        return
                    is_evicted = await evict_pod(self.api, pod)
            except EvictionRefusedError as error:
                refused.append(str(error))
                self.metrics.evictions.labels(pool, "refused").inc()
                self._tell_pod(pod, Reason.EVICTION_REFUSED, f"Pool {pool}: {error}", warns=True)
                continue
            self.metrics.evictions.labels(pool, "evicted" if is_evicted else "gone").inc()
            if is_evicted:
                log.info("evicted pod %s", pod)
                note = f"Pool {pool}: Evicted, because the GPU mode of node {action.node} changes"
                self._tell_pod(pod, Reason.POD_EVICTED, note)
        if refused:
            more = len(refused) - REFUSALS_SHOWN
            shown = [*refused[:REFUSALS_SHOWN], *([f"and {more} more"] if more > 0 else [])]
            raise EvictionRefusedError("; ".join(shown))
        # The answer does not show the pods, and the watch is behind: else they'd be asked again.
        await asyncio.sleep(GONE_SECONDS)

    async def _create_job(self, action: CreateJob, pool: str, reason: Reason) -> None:
        """Create the Job, or adopt the one that exists.

        The creator of an existing Job is unknown. The chart's admission policy ensures that a Job
        of such a name does nothing but this phase of a teardown, and it counts only on the node of
        its pods.
        """
        namespace, image = self.settings.teardown_namespace, self.settings.teardown_image
        manifest = render_teardown_job(action, pool=pool, namespace=namespace, image=image)
        answer, is_made = await create_job(self.api, manifest)
        job = parse_job(answer)
        if job is None or job.node != action.node or job.args[:1] != (action.phase,):
            raise JobTakenError(
                f"Job {namespace}/{action.name} exists already, but is not pinned to node "
                f"{action.node} or not for phase {action.phase}. Delete it"
            )
        if self.informers.jobs is not None:
            self.informers.jobs.offer(answer)
        if is_made:
            log.info("created Job %s", job)
            does = "removes the kernel module"
            if action.phase is JobPhase.VERIFY:
                does = "checks whether the kernel module is loaded"
            self._tell_node(action.node, reason, f"Pool {pool}: Job {job} {does}")

    def _tell_node(self, name: str, reason: Reason, note: str, *, warns: bool = False) -> None:
        node = self.informers.nodes.records.get(name)
        subject = ObjectReference("v1", "Node", name, node.uid if node else "")
        self.events.post(subject, reason, note, warns=warns)

    def _tell_pod(self, pod: NamedPod, reason: Reason, note: str, *, warns: bool = False) -> None:
        subject = ObjectReference("v1", "Pod", pod.name, pod.uid, pod.namespace)
        self.events.post(subject, reason, note, warns=warns, once=True)
