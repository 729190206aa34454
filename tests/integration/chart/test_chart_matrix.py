"""The chart with many different values: what Helm says of it, and what the API server takes."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from devcluster.errors import CommandError
from devcluster.installation import NAMESPACE, apply_crds
from devcluster.startup import CHART
from tests.integration.chart.chart_values import (
    JOBS_NAMESPACE,
    Values,
    build_all_on,
    build_matrix,
    list_flags,
    read_oldest_kubernetes,
    render_objects,
)
from tests.kit.bench import Bench, Json

MATRIX = build_matrix()
FOREIGN_CRDS = Path(__file__).with_name("foreign-crds.yaml").read_text()
_NAMESPACES = "/api/v1/namespaces"
_LEVEL = "pod-security.kubernetes.io"


@pytest.fixture(scope="module")
def renderings(installed: Bench) -> list[list[Json]]:
    """The objects of each row."""
    return [render_objects(installed.cluster, values) for values in MATRIX]


@pytest.fixture(scope="module")
def distinct(renderings: list[list[Json]]) -> list[Json]:
    """Each object that any row has, once."""
    found = (item for objects in renderings for item in objects)
    return list({json.dumps(item, sort_keys=True): item for item in found}.values())


@pytest.mark.parametrize("values", MATRIX, ids=range(len(MATRIX)))
def test_helm_finds_nothing_to_warn_of(installed: Bench, values: Values) -> None:
    installed.cluster.helm("lint", "--strict", str(CHART), *list_flags(values))


def test_no_two_objects_have_one_name(renderings: list[list[Json]]) -> None:
    for objects in renderings:
        names = Counter(
            (item["kind"], item["metadata"].get("namespace"), item["metadata"]["name"])
            for item in objects
        )
        assert [name for name, times in names.items() if times > 1] == []


def test_a_name_of_digits_alone_is_a_name_wherever_it_stands(installed: Bench) -> None:
    named = {
        "pluginNamespace": "87001",
        "teardown.jobs.namespace": "87002",
        "dashboards.namespace": "87003",
        "priorityClassName": "87004",
    }
    values = build_all_on(allInOne=False, **named)
    objects = render_objects(installed.cluster, values, "--namespace=87005", release="87006")

    text = json.dumps(objects)
    numbers: list[str] = []
    json.loads(text, parse_int=numbers.append)
    names = {*named.values(), "87005", "87006"}
    assert [name for name in names if f'"{name}"' not in text] == []
    assert names.isdisjoint(numbers)


def test_helm_refuses_a_kubernetes_before_the_oldest_that_is_tested(installed: Bench) -> None:
    major, minor = read_oldest_kubernetes()
    assert render_objects(installed.cluster, {}, f"--kube-version={major}.{minor}.0-aliyun.1")
    with pytest.raises(CommandError, match="incompatible with Kubernetes"):
        render_objects(installed.cluster, {}, f"--kube-version={major}.{minor - 1}.15")


@pytest.fixture(scope="module")
def prepared(installed: Bench) -> Iterator[Bench]:
    """Where others' kinds are known, and no pod goes unnoticed that is not as strict as can be."""
    cluster = installed.cluster
    apply_crds(cluster, list(yaml.safe_load_all(FOREIGN_CRDS)))
    installed.call("POST", _NAMESPACES, {"metadata": {"name": JOBS_NAMESPACE}})
    warned: Json = {"metadata": {"labels": {f"{_LEVEL}/warn": "restricted"}}}
    installed.call("PATCH", f"{_NAMESPACES}/{NAMESPACE}", warned)
    yield installed
    warned["metadata"]["labels"][f"{_LEVEL}/warn"] = None
    installed.call("PATCH", f"{_NAMESPACES}/{NAMESPACE}", warned)
    installed.call("DELETE", f"{_NAMESPACES}/{JOBS_NAMESPACE}")
    cluster.kubectl("delete", "--filename=-", stdin=FOREIGN_CRDS)


def test_the_api_server_takes_every_object_without_a_warning(
    prepared: Bench, distinct: list[Json]
) -> None:
    applied = prepared.cluster.kubectl(
        "apply", "--server-side", "--dry-run=server", "--force-conflicts",
        "--warnings-as-errors", "--filename=-",
        stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": distinct}),
    )  # fmt: skip
    assert applied.count("serverside-applied (server dry run)") == len(distinct)
