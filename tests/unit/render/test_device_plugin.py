"""The open-source device plugin, under the names by which the operator knows it."""

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gpushare.api.pod import parse_pod
from gpushare.api.pool import Edition, Schedule
from gpushare.core.modes import MODES
from gpushare.core.plugins import identify_plugin, is_plugin_of
from gpushare.render.deviceplugin import parse_node_selector, render_device_plugin

IMAGE = "registry.example.com/gpushare-plugin:v2"
SHARE = MODES[Edition.OPEN_SOURCE, Schedule.SHARE]


def render(*arguments: Any, **options: Any) -> dict[str, Any]:
    """The objects by kind."""
    text = render_device_plugin(*(arguments or (IMAGE,)), **options)
    return {each["kind"]: each for each in yaml.safe_load_all(text)}


def test_its_pods_are_the_plugin_of_the_editions_sharing_mode() -> None:
    daemonset = render()["DaemonSet"]
    owner = {**_own(daemonset), "uid": "ds-1", "controller": True}
    raw = {
        "metadata": {
            "name": "x", "uid": "1", "namespace": "kube-system", "ownerReferences": [owner],
        },
        "spec": daemonset["spec"]["template"]["spec"],
    }  # fmt: skip
    pod = parse_pod(raw, plugin_namespace="kube-system")
    assert pod is not None
    assert identify_plugin(pod) == SHARE.plugin
    assert is_plugin_of(pod, SHARE)


def _own(raw: dict[str, Any]) -> dict[str, str]:
    return {"apiVersion": raw["apiVersion"], "kind": raw["kind"], "name": raw["metadata"]["name"]}


def test_it_runs_where_a_pool_of_the_edition_switches_sharing_on() -> None:
    assert render()["DaemonSet"]["spec"]["template"]["spec"]["nodeSelector"] == SHARE.labels


def test_it_gets_no_right_to_kubelets_and_secrets() -> None:
    rules = render()["ClusterRole"]["rules"]
    resources = {resource for rule in rules for resource in rule["resources"]}
    assert resources == {"nodes", "nodes/status", "pods", "events"}


def test_a_change_of_it_restarts_no_plugin_by_itself() -> None:
    assert render()["DaemonSet"]["spec"]["updateStrategy"] == {"type": "OnDelete"}


@given(st.text(min_size=1).filter(lambda text: not any(map(str.isspace, text))))
def test_no_image_breaks_out_of_its_place(image: str) -> None:
    found = render(image)["DaemonSet"]["spec"]["template"]["spec"]["containers"][0]["image"]
    assert found == image


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"namespace": "Not A Name"}, "is no name of a namespace"),
        ({"memory_unit": "TiB"}, "is no unit"),
    ],
)
def test_what_is_no_value_is_refused(options: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        render_device_plugin(IMAGE, **options)


@pytest.mark.parametrize("image", ["", "a b", "a\n"])
def test_what_is_no_image_is_refused(image: str) -> None:
    with pytest.raises(ValueError, match="is no image"):
        render_device_plugin(image)


def test_labels_are_read_as_kubectl_writes_them() -> None:
    assert parse_node_selector(["a.com/b=c", "d="]) == {"a.com/b": "c", "d": ""}
    for term in ("a", "=b", "a=b c", "a/b/c=d", "a=b\n"):
        with pytest.raises(ValueError, match="is no label"):
            parse_node_selector([term])
    with pytest.raises(ValueError, match="named twice"):
        parse_node_selector(["a=b", "a=c"])
