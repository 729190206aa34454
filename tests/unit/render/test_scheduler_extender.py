"""The open-source scheduler extender, as current clusters take it."""

from typing import Any

import yaml

from gpushare.cli.exits import Exit
from gpushare.render.extender import render_scheduler_extender
from tests.kit.commandline import expect_told, run_command

IMAGE = "registry.example.com/gpushare-extender:v2"


def render(**options: Any) -> dict[str, Any]:
    """The objects by kind."""
    text = render_scheduler_extender(IMAGE, **options)
    return {each["kind"]: each for each in yaml.safe_load_all(text)}


def test_it_runs_on_the_control_plane_of_current_clusters() -> None:
    spec = render()["Deployment"]["spec"]["template"]["spec"]
    (term,) = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    key = "node-role.kubernetes.io/control-plane"
    # Installers give the label different values; kubeadm an empty one, k3s "true".
    assert term["matchExpressions"] == [{"key": key, "operator": "Exists"}]
    assert [each["key"] for each in spec["tolerations"]] == [key]


def test_there_are_never_two_that_give_out_the_same_card() -> None:
    spec = render()["Deployment"]["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})


def test_its_account_is_the_one_that_has_its_rights() -> None:
    found = render()
    account = found["ServiceAccount"]["metadata"]
    assert found["ClusterRoleBinding"]["subjects"] == [{"kind": "ServiceAccount", **account}]
    role = found["ClusterRole"]["metadata"]["name"]
    assert found["ClusterRoleBinding"]["roleRef"]["name"] == role
    template = found["Deployment"]["spec"]["template"]["spec"]
    assert template["serviceAccountName"] == account["name"]
    namespaces = {found[kind]["metadata"]["namespace"] for kind in ("Deployment", "Service")}
    assert namespaces == {account["namespace"]}


def test_its_service_leads_to_the_port_on_which_it_listens() -> None:
    found = render()
    (container,) = found["Deployment"]["spec"]["template"]["spec"]["containers"]
    (port,) = container["ports"]
    (served,) = found["Service"]["spec"]["ports"]
    assert served["targetPort"] == port["name"] == container["readinessProbe"]["httpGet"]["port"]
    assert {"name": "PORT", "value": str(port["containerPort"])} in container["env"]
    labels = found["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert found["Service"]["spec"]["selector"] == labels
    assert found["Deployment"]["spec"]["selector"]["matchLabels"] == labels


def test_no_port_is_open_on_nodes_unless_one_is_asked_for() -> None:
    assert "type" not in render()["Service"]["spec"]
    assert "hostNetwork" not in render()["Deployment"]["spec"]["template"]["spec"]
    opened = render(node_port=32766)["Service"]["spec"]
    assert (opened["type"], opened["ports"][0]["nodePort"]) == ("NodePort", 32766)


def test_what_is_no_image_is_refused() -> None:
    ended = run_command("render", "scheduler-extender", "--image", "a b")
    expect_told(ended, Exit.USAGE, "is no image")
