"""The open-source device plugin, under the names by which the operator knows it."""

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gpushare.api.k8s.pod import parse_pod
from gpushare.api.pool import Edition, Schedule
from gpushare.editions.plugins import identify_plugin, is_plugin_of
from gpushare.editions.registry import MODES
from gpushare.render.deviceplugin import parse_node_selector, render_device_plugin

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


@pytest.mark.parametrize(
    ("image", "options", "told"),
    [
        (IMAGE, {"namespace": "Not A Name"}, "is no name of a namespace"),
        (IMAGE, {"memory_unit": "TiB"}, "is no unit"),
        *((image, {}, "is no image") for image in ("", "a b", "a\n")),
    ],
)
def test_what_is_no_value_is_refused(image: str, options: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        render_device_plugin(image, **options)


def test_labels_are_read_as_kubectl_writes_them() -> None:
    assert parse_node_selector(["a.com/b=c", "d="]) == {"a.com/b": "c", "d": ""}
    for term in ("a", "=b", "a=b c", "a/b/c=d", "a=b\n"):
        with pytest.raises(ValueError, match="is no label"):
            parse_node_selector([term])
    with pytest.raises(ValueError, match="named twice"):
        parse_node_selector(["a=b", "a=c"])
