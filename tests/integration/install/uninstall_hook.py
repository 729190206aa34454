"""The hook that `helm uninstall` runs, as Helm and a kubelet would: its objects come and go, and
its Job's container is a process with the Job's own arguments, variables and account.
"""

import os
import subprocess
import sys
from collections.abc import Iterable, Mapping

import yaml

from devcluster.installation import NAMESPACE, Installation
from devcluster.kubeconfig import read_own_kubeconfig, write_service_account
from devcluster.startup import PROJECT
from tests.kit.bench import Bench, Json

HOOK = "helm.sh/hook"
POOLS_GO: Mapping[str, str] = {"crds.keep": "false"}
"""The pools go with their CRD; by default they stay."""
_ACCESS = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding")
_FIELDS = {"metadata.namespace": NAMESPACE}


def render_hook(bench: Bench, values: Mapping[str, str]) -> list[Json]:
    """The hook's objects in an installation with `values`, in the order of their weights."""
    everything = {"deploy": "true", **values}
    manifests = yaml.safe_load_all(Installation(bench.cluster, values=everything).render())
    hooks = [m for m in manifests if m and HOOK in m["metadata"].get("annotations", {})]
    return sorted(hooks, key=lambda it: int(it["metadata"]["annotations"].get(f"{HOOK}-weight", 0)))


def find_job(hook: Iterable[Json]) -> Json:
    """The Job among the hook's objects."""
    (job,) = (each for each in hook if each["kind"] == "Job")
    return job


def uninstall(
    bench: Bench, values: Mapping[str, str], *, timeout_seconds: int = 60
) -> subprocess.CompletedProcess[str]:
    """Run the hook of an installation with `values` once; the limit is the Job's own."""
    hook = render_hook(bench, {**values, "uninstall.timeoutSeconds": str(timeout_seconds)})
    job = find_job(hook)["spec"]
    pod = job["template"]["spec"]
    (container,) = pod["containers"]
    manifests = yaml.safe_dump_all(each for each in hook if each["kind"] in _ACCESS)
    bench.cluster.kubectl("create", "-f", "-", stdin=manifests)
    try:
        environment = {
            **os.environ,
            "PYTHONPATH": str(PROJECT / "operator"),
            **{each["name"]: _resolve(each) for each in container["env"]},
            **_log_in(bench, pod["serviceAccountName"]),
        }
        return subprocess.run(
            [sys.executable, "-m", "gpushare", *container["args"]],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=job["activeDeadlineSeconds"],
        )
    finally:
        bench.cluster.kubectl("delete", "-f", "-", stdin=manifests)


def _log_in(bench: Bench, account: str) -> Mapping[str, str]:
    """Variables with the account's credentials."""
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account}/token"
    token = bench.call("POST", path, {"spec": {}})["status"]["token"]
    admin = read_own_kubeconfig(bench.cluster.kubeconfig)
    folder = bench.cluster.logs.parent / f"serviceaccount-{account}"
    return write_service_account(admin, folder, token=token)


def _resolve(variable: Json) -> str:
    if "valueFrom" in variable:
        return _FIELDS[variable["valueFrom"]["fieldRef"]["fieldPath"]]
    value: str = variable["value"]
    return value
