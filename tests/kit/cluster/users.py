"""Creates users with given rights, for commands."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import yaml

from devcluster.kubeconfig import build_token_kubeconfig, read_own_kubeconfig
from tests.kit.bench import Bench, Json
from tests.kit.cluster.expect import expect

_ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_RBAC = "/apis/rbac.authorization.k8s.io/v1"


@contextmanager
def as_user(
    bench: Bench,
    folder: Path,
    rules: Sequence[Json] = (),
    *,
    name: str = "visitor",
    url: str = "",
) -> Iterator[Path]:
    """Write the kubeconfig of a user who has only these rights, in the whole cluster, and wait
    until they are in force. The API server is at `url`, if given, which may be a proxy."""
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    subject = {"kind": "ServiceAccount", "name": name, "namespace": "default"}
    meta = {"metadata": {"name": name}}
    bench.call("POST", _ACCOUNTS, meta)
    bench.call("POST", f"{_RBAC}/clusterroles", {**meta, "rules": list(rules)})
    binding = {**meta, "roleRef": role, "subjects": [subject]}
    bench.call("POST", f"{_RBAC}/clusterrolebindings", binding)
    try:
        file = folder / f"{name}.kubeconfig"
        write_kubeconfig(bench, file, f"{_ACCOUNTS}/{name}", server=url)
        if rules:
            _wait_until_allowed(bench, name, rules[-1])
        yield file
    finally:
        bench.call("DELETE", f"{_RBAC}/clusterrolebindings/{name}")
        bench.call("DELETE", f"{_RBAC}/clusterroles/{name}")
        bench.call("DELETE", f"{_ACCOUNTS}/{name}")


def as_reader(bench: Bench, folder: Path, *, url: str = "") -> AbstractContextManager[Path]:
    """Write the kubeconfig of a user who may read all that commands read."""
    rules = [
        *(policy_rule(resource, "list") for resource in ("nodes", "pods", "namespaces")),
        policy_rule("gpusharepools", "list", group="gpushare.io"),
        *(
            policy_rule(resource, "list", group="apps")
            for resource in ("daemonsets", "deployments")
        ),
    ]
    return as_user(bench, folder, rules, name="reader", url=url)


def policy_rule(resource: str, *verbs: str, group: str = "", of: Sequence[str] = ()) -> Json:
    """Build a rule of a Role; with `of` only for objects of these names."""
    rule: Json = {"apiGroups": [group], "resources": [resource], "verbs": list(verbs)}
    return rule | {"resourceNames": list(of)} if of else rule


def _wait_until_allowed(bench: Bench, name: str, rule: Json) -> None:
    """Wait until the API server allows a user what the rule grants."""
    asked = {
        "verb": rule["verbs"][0],
        "group": rule["apiGroups"][0],
        "resource": rule["resources"][0],
        "name": rule.get("resourceNames", [""])[0],
    }
    user = f"system:serviceaccount:default:{name}"
    review = {"spec": {"user": user, "resourceAttributes": asked}}
    expect(
        bench,
        "the role is in force",
        lambda: bench.call("POST", _REVIEWS, review)["status"]["allowed"],
    )


def write_kubeconfig(bench: Bench, file: Path, account: str, *, server: str = "") -> Path:
    """Write the kubeconfig of the ServiceAccount at the path `account`, with `server`, which may be
    a proxy."""
    own = read_own_kubeconfig(bench.cluster.kubeconfig)
    answer = bench.call("POST", f"{account}/token", {"spec": {}})
    config = build_token_kubeconfig(
        own,
        token=answer["status"]["token"],
        namespace="default",
        server=server or own["clusters"][0]["cluster"]["server"],
    )
    file.write_text(yaml.safe_dump(config))
    return file
