"""What commands make of a cluster that they read."""

import json
from dataclasses import replace

from gpushare.api.pruned.cluster import Kind, keep_object
from gpushare.cli.cluster.snapshot import observe_cluster
from gpushare.editions.edition import GPUSHARE_PLUGIN
from tests.kit.histories.labelled_cluster import LabelledNode, build_labelled_cluster

RENAMED = "ack-gpushare-plugin"


def test_plugins_are_known_by_the_names_that_the_controller_was_told() -> None:
    node = LabelledNode("gpu-1", schedule="share", has_plugins=False, extra_plugins=(RENAMED,))
    cluster = build_labelled_cluster([node])
    assert observe_cluster(cluster).snapshot.plugin_daemonsets.standard == {RENAMED}

    variable = {
        "name": "GPUSHARE_PLUGIN_DAEMONSETS",
        "value": json.dumps({GPUSHARE_PLUGIN: RENAMED}),
    }
    template = {"spec": {"containers": [{"name": "gpushare", "env": [variable]}]}}
    meta = {"name": "gpushare-controller", "namespace": "gpushare-system", "uid": "1"}
    raw = {"metadata": meta, "spec": {"template": template}}
    kept = keep_object(Kind.DEPLOYMENTS, raw)
    assert kept is not None

    snapshot = observe_cluster(replace(cluster, deployments=(kept,))).snapshot
    assert snapshot.plugin_daemonsets.standard == {GPUSHARE_PLUGIN}
    assert [pod.daemonset for pod in snapshot.pods["gpu-1"]] == [GPUSHARE_PLUGIN]
    assert snapshot.plugin_daemonsets.name_of(GPUSHARE_PLUGIN) == RENAMED


def test_of_a_daemonsets_image_the_name_is_kept() -> None:
    image = "registry.internal:5000/team/k8s-gpushare-plugin:v2"
    raw = {
        "metadata": {"name": "p", "namespace": "kube-system", "uid": "1"},
        "spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}},
    }
    kept = keep_object(Kind.DAEMONSETS, raw)
    assert kept is not None
    assert kept["spec"]["template"]["spec"]["containers"] == [
        {"name": "main", "image": "k8s-gpushare-plugin"}
    ]
