"""Plays the DaemonSet controller, device plugins and kubelets of a simulated cluster over time."""

from dataclasses import replace
from datetime import datetime, timedelta

from gpushare import names
from gpushare.api.k8s.job import JobState
from gpushare.api.k8s.pod import Pod
from gpushare.core.snapshot.actions import JobPhase
from tests.kit.histories.simulated_cluster import (
    AMOUNTS,
    DAEMONSETS,
    DISCOVERY,
    INSTALLER,
    MPS_CAPABLE,
    MPS_DAEMON,
    NVIDIA_PLUGIN,
    SHOWN,
    STARTING,
    Cluster,
    Fault,
    SimulatedPod,
    delete_pod,
    end_pod,
    plugins_on,
    put_node,
    put_pod,
    read_mode,
    remove_module,
    returning_on,
    write_node,
)


def elapse(cluster: Cluster, seconds: float) -> Cluster:
    """Play all actions that are due within `seconds`, in order."""
    end = cluster.now + timedelta(seconds=seconds)
    cluster = _settle(cluster)
    while (due := next_due(cluster)) is not None and due <= end:
        cluster = _settle(replace(cluster, now=max(due, cluster.now)))
    return _settle(replace(cluster, now=end))


def next_due(cluster: Cluster) -> datetime | None:
    """Return the time of the next action; None where there is none."""
    pods = (each.due for each in cluster.pods.values() if each.due and not _is_stuck(cluster, each))
    nodes = (due for name, due in cluster.reports.items() if cluster.nodes[name].ready)
    jobs = (
        each.due
        for each in cluster.jobs.values()
        if each.job.state is JobState.RUNNING and cluster.nodes[each.job.node].ready
    )
    return min((*pods, *nodes, *jobs), default=None)


def _is_stuck(cluster: Cluster, each: SimulatedPod) -> bool:
    """Tell whether the kubelet is away, or the pod never becomes Ready."""
    pod, node = each.pod, cluster.nodes[each.pod.node]
    waits = pod.daemonset and pod.phase == "Running" and not pod.deleting
    never = cluster.suffers(pod.node, Fault.NEVER_READY) or not node.machine.serves_cards
    return bool(waits and never) or not node.ready


def _settle(cluster: Cluster) -> Cluster:
    """Play all actions that are due now."""
    for name, node in sorted(cluster.nodes.items()):
        cluster = _run_daemonsets(cluster, name)
        if not node.ready:
            continue
        for uid, each in sorted(cluster.pods.items()):
            is_due = each.due is not None and each.due <= cluster.now
            if each.pod.node == name and is_due and not _is_stuck(cluster, each):
                cluster = _step_pod(cluster, uid, each)
        cluster = _end_jobs(cluster, name)
        cluster = _follow_label(cluster, name)
        cluster = _run_daemonsets(cluster, name)
        cluster = _report(cluster, name)
    return cluster


def _run_daemonsets(cluster: Cluster, name: str) -> Cluster:
    """Create a pod of each matching DaemonSet, once the previous one is gone."""
    labels, present = cluster.nodes[name].labels, dict(plugins_on(cluster, name))
    if not cluster.nodes[name].machine.runs_daemonsets:
        return cluster
    for daemonset, needs in DAEMONSETS[cluster.edition].items():
        uids = [uid for uid, each in present.items() if each.pod.daemonset == daemonset]
        if daemonset in cluster.missing or labels.get(needs.key) not in needs.values:
            for uid in uids:
                cluster = delete_pod(cluster, uid)
        elif not uids:
            uid = f"{daemonset}-{cluster.serial}"
            pod = Pod("kube-system", uid, uid, node=name, daemonset=daemonset)
            cluster = replace(cluster, serial=cluster.serial + 1)
            cluster = put_pod(cluster, uid, SimulatedPod(pod, cluster.now + STARTING))
    return cluster


def _step_pod(cluster: Cluster, uid: str, each: SimulatedPod) -> Cluster:
    pod, node = each.pod, cluster.nodes[each.pod.node]
    if pod.deleting:
        return end_pod(cluster, uid)
    if not pod.daemonset:
        # A kubelet asks the plugin for devices when a pod starts, and fails it without one.
        served = _offer(cluster, pod.node).keys() >= pod.requests.keys()
        pod = replace(pod, phase="Running" if served else "Failed")
        read = _find_read(cluster, pod) if served else ""
        return put_pod(cluster, uid, replace(each, pod=pod, due=None, read=read))
    if pod.phase == "Pending":
        read = read_mode(cluster.edition, node.labels)
        pod = replace(pod, phase="Running")
        if pod.daemonset == INSTALLER:
            cluster = replace(cluster, modules={**cluster.modules, pod.node: True})
        due = cluster.now + returning_on(cluster, pod.node)
        return put_pod(cluster, uid, SimulatedPod(pod, due, read))
    pod = replace(pod, ready=True, ready_since=cluster.now)
    return put_pod(cluster, uid, replace(each, pod=pod, due=None))


def _follow_label(cluster: Cluster, name: str) -> Cluster:
    """Make NVIDIA's plugin and GPU feature discovery load another configuration at once, in place;
    the MPS daemon may miss its signal. Discovery labels the node with the loaded one."""
    for uid, each in plugins_on(cluster, name):
        if each.pod.phase != "Running" or each.pod.daemonset not in (NVIDIA_PLUGIN, DISCOVERY):
            continue
        read = read_mode(cluster.edition, cluster.nodes[name].labels)
        cluster = put_pod(cluster, uid, replace(each, read=read))
        if each.pod.daemonset == DISCOVERY and each.pod.ready:
            replicas, strategy = SHOWN[read]
            for key, value in (
                (f"{names.RESOURCE_WHOLE_GPU}.count", str(cluster.nodes[name].machine.cards)),
                (f"{names.RESOURCE_WHOLE_GPU}.replicas", replicas),
                (f"{names.RESOURCE_WHOLE_GPU}.sharing-strategy", strategy),
                (MPS_CAPABLE, str(strategy == "mps").lower()),
            ):
                cluster = write_node(cluster, name, key, value, "nfd-master")
    return cluster


def _end_jobs(cluster: Cluster, name: str) -> Cluster:
    """Complete Jobs: one removes the kernel module, one fails if the module is loaded."""
    for each in cluster.jobs.values():
        job = each.job
        if job.node != name or job.state is not JobState.RUNNING or each.due > cluster.now:
            continue
        is_removal = job.args[0] == JobPhase.UNINSTALL
        fails = cluster.suffers(name, Fault.JOBS_FAIL) or not (
            is_removal or name not in cluster.modules
        )
        ended = replace(job, state=JobState.FAILED if fails else JobState.COMPLETE)
        jobs = {**cluster.jobs, job.name: replace(each, job=ended)}
        cluster = replace(cluster, jobs=jobs)
        if is_removal and not fails:
            cluster = remove_module(cluster, name)
    return cluster


def _find_read(cluster: Cluster, pod: Pod) -> str:
    """Find the mode that the pod's plugin has read; only one plugin can be Ready."""
    daemonsets = DAEMONSETS[cluster.edition]
    reads = [
        each.read
        for _, each in plugins_on(cluster, pod.node)
        if each.pod.ready and daemonsets[each.pod.daemonset].resource in pod.requests
    ]
    return reads[-1] if reads else ""


def _report(cluster: Cluster, name: str) -> Cluster:
    """Report the node's resources, some time after they changed."""
    node, reports = cluster.nodes[name], dict(cluster.reports)
    offer = {} if cluster.suffers(name, Fault.SILENT_ZERO) else _offer(cluster, name)
    if cluster.suffers(name, Fault.MIG) and node.machine.serves_cards:
        offer |= {f"{names.RESOURCE_MIG_PREFIX}1g.5gb": 7}
    due = reports.pop(name, None)
    if node.allocatable != offer:
        if due is not None and due <= cluster.now:
            capacity = {**dict.fromkeys(node.capacity, 0), **offer}
            cluster = put_node(cluster, replace(node, allocatable=offer, capacity=capacity))
        else:
            reports[name] = due or cluster.now + cluster.reporting
    return replace(cluster, reports=reports)


def _offer(cluster: Cluster, name: str) -> dict[str, int]:
    """Count the resources of Ready plugins for healthy cards."""
    daemonsets, cards = DAEMONSETS[cluster.edition], cluster.nodes[name].machine.healthy
    serving = [each for _, each in plugins_on(cluster, name) if each.pod.ready]
    for each in serving:
        if each.pod.daemonset == NVIDIA_PLUGIN:
            # Without an MPS daemon that has loaded the same, it registers nothing.
            daemons = [other.read for other in serving if other.pod.daemonset == MPS_DAEMON]
            is_served = each.read != "cgpu" or each.read in daemons
            offered = int(SHOWN[each.read][0]) * cards
            return {names.RESOURCE_WHOLE_GPU: offered} if is_served else {}
    resources = {daemonsets[each.pod.daemonset].resource for each in serving} - {""}
    return {resource: AMOUNTS[resource] * cards for resource in sorted(resources)}
