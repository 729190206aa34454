"""The open-source device plugin, under the names by which the operator knows it."""

from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st

from gpushare.api.k8s.pod import parse_pod
from gpushare.api.pool import Edition, Schedule
from gpushare.editions.plugins import identify_plugin, is_plugin_of
from gpushare.editions.registry import MODES
from gpushare.render.opensource import render_device_plugin

IMAGE = "registry.example.com/gpushare-plugin:v2"
SHARE = MODES[Edition.OPEN_SOURCE, Schedule.SHARE]


def render(image: str = IMAGE) -> dict[str, Any]:
    """Its DaemonSet."""
    objects = {each["kind"]: each for each in yaml.safe_load_all(render_device_plugin(image))}
    daemonset: dict[str, Any] = objects["DaemonSet"]
    return daemonset


def test_its_pods_are_the_plugin_of_the_editions_sharing_mode() -> None:
    daemonset = render()
    name, spec = daemonset["metadata"]["name"], daemonset["spec"]["template"]["spec"]
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": name, "uid": "ds-1"}
    metadata: dict[str, Any] = {"name": "x", "uid": "1", "namespace": "kube-system"}
    metadata |= {"ownerReferences": [{**owner, "controller": True}]}
    pod = parse_pod({"metadata": metadata, "spec": spec}, plugin_namespace="kube-system")
    assert pod is not None
    assert identify_plugin(pod) == SHARE.plugin
    assert is_plugin_of(pod, SHARE)
    assert spec["nodeSelector"] == SHARE.labels


def test_a_change_of_it_restarts_no_plugin_by_itself() -> None:
    assert render()["spec"]["updateStrategy"] == {"type": "OnDelete"}


@given(st.text(min_size=1).filter(lambda text: not any(map(str.isspace, text))))
def test_no_image_breaks_out_of_its_place(image: str) -> None:
    (container,) = render(image)["spec"]["template"]["spec"]["containers"]
    assert container["image"] == image
