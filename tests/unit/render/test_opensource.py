"""The components of open-source gpushare, as current clusters take them."""

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gpushare.api.k8s.pod import parse_pod
from gpushare.api.pool import Edition, Schedule
from gpushare.editions.plugins import identify_plugin, is_plugin_of
from gpushare.editions.registry import MODES
from gpushare.render.opensource import (
    render_device_plugin,
    render_scheduler_config,
    render_scheduler_extender,
)

SHARE = MODES[Edition.OPEN_SOURCE, Schedule.SHARE]


def render(image: str = "registry.example.com/gpushare-plugin:v2") -> dict[str, Any]:
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
    pod = parse_pod({"metadata": metadata, "spec": spec}, plugin_namespaces=("kube-system",))
    assert pod is not None
    assert identify_plugin(pod) == SHARE.plugin
    assert is_plugin_of(pod, SHARE)
    assert spec["nodeSelector"] == SHARE.labels


@given(st.text(min_size=1).filter(lambda text: not any(map(str.isspace, text))))
def test_no_image_breaks_out_of_its_place(image: str) -> None:
    (container,) = render(image)["spec"]["template"]["spec"]["containers"]
    assert container["image"] == image


def test_there_are_never_two_that_give_out_the_same_card() -> None:
    manifests = yaml.safe_load_all(render_scheduler_extender("registry.example.com/extender:v2"))
    (spec,) = (each["spec"] for each in manifests if each["kind"] == "Deployment")
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("127.0.0.1:32766", "is not the URL"),
        ("https://x", "is not the URL"),
        ("http://", "is not the URL"),
        ("http://x:99999999", "is not the URL"),
        ("http://x/\n", "is not the URL"),
        ("http://[x", "is not the URL"),
        ("http://a:b@x", "must have only a host"),
        ("http://x/?a=b", "must have only a host"),
    ],
)
def test_what_kube_scheduler_would_refuse_or_misread_is_refused(url: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        render_scheduler_config(url)


@given(st.text(min_size=1))
def test_no_file_name_breaks_out_of_its_place(name: str) -> None:
    found = yaml.safe_load(render_scheduler_config("http://x", name))
    assert found["clientConnection"] == {"kubeconfig": name}
