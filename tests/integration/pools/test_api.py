"""What the API server takes for a GPUSharePool, and what it says of the rest."""

import pytest
import yaml

from devcluster.apiserver import ApiError
from devcluster.errors import CommandError
from tests.kit.bench import POOLS, Bench, Json
from tests.kit.values.manifests import build_pool
from tests.unit.api.pool_specs import BY_LABEL, REFUSED, TAKEN


@pytest.mark.parametrize(("spec", "sentence"), REFUSED.values(), ids=REFUSED.keys())
def test_a_bad_spec_is_refused_with_a_sentence_that_says_what_to_write(
    bench: Bench, spec: Json, sentence: str
) -> None:
    pool = build_pool(**{"nodes": BY_LABEL, **spec})
    with pytest.raises(ApiError) as refused:
        bench.create_pool(pool)
    assert refused.value.status == 422
    assert sentence in str(refused.value)


def test_a_spec_without_a_schedule_is_refused(bench: Bench) -> None:
    pool = build_pool()
    del pool["spec"]["schedule"]
    with pytest.raises(ApiError, match="The other editions require schedule"):
        bench.create_pool(pool)


def test_a_name_that_is_no_label_value_is_refused(bench: Bench) -> None:
    with pytest.raises(ApiError, match="at most 63 characters"):
        bench.create_pool(build_pool("p" * 64))


def test_the_edition_of_a_pool_stays(bench: Bench) -> None:
    bench.create_pool(build_pool(edition="Basic"))
    with pytest.raises(ApiError, match="edition is immutable"):
        bench.change_pool(edition="OpenSource")


@pytest.mark.parametrize("place", ["spec", "nodes"])
def test_an_unknown_field_is_refused_under_strict_validation(bench: Bench, place: str) -> None:
    pool = build_pool()
    holder = pool["spec"] if place == "spec" else pool["spec"]["nodes"]
    holder["scheduel"] = "cgpu"
    with pytest.raises(CommandError, match=r'unknown field "spec\.(nodes\.)?scheduel"'):
        bench.cluster.kubectl("create", "--validate=strict", "-f", "-", stdin=yaml.safe_dump(pool))


@pytest.mark.parametrize("spec", TAKEN.values(), ids=TAKEN.keys())
def test_a_good_spec_is_taken_as_it_is(bench: Bench, spec: Json) -> None:
    pool = build_pool()
    pool["spec"] = {"nodes": BY_LABEL, **spec}
    created = bench.create_pool(pool)["spec"]
    assert pool["spec"].pop("nodes").items() <= created["nodes"].items()
    assert pool["spec"].items() <= created.items()


def test_what_a_spec_leaves_out_gets_a_safe_value(bench: Bench) -> None:
    pool = build_pool()
    pool["spec"] = {"nodes": BY_LABEL, "schedule": "cgpu"}
    created = bench.create_pool(pool)["spec"]
    assert created == {
        **pool["spec"],
        "nodes": {**BY_LABEL, "cards": "Detected", "scaling": "Fixed"},
        "edition": "Professional",
        "priority": 100,
        "reconcile": "Enforce",
        "conflicts": "Report",
        "deletionPolicy": "Retain",
        "devicePlugin": {"restart": "OnIsolationChange"},
        "rollout": {
            "maxUnavailable": 1,
            "canary": 0,
            "onFailure": "Halt",
            "approval": "Automatic",
            "workloads": "Wait",
            "staleWorkloads": "Report",
            "newNodes": "Anytime",
        },
        "isolationTeardown": {"policy": "Manual", "reboot": "Manual"},
        "workloads": {"selection": "Automatic", "binding": "Pool"},
    }


def test_lists_of_a_spec_are_stored_as_they_were_written(bench: Bench) -> None:
    windows = [{"schedule": "0 2 * * *", "duration": "4h"}]
    tolerations = [{"key": "gpu", "operator": "Exists"}]
    pool = build_pool(rollout={"windows": windows}, workloads={"tolerations": tolerations})
    created = bench.create_pool(pool)["spec"]
    assert created["rollout"]["windows"] == windows
    assert created["workloads"]["tolerations"] == tolerations


def test_kubectl_knows_the_short_name_the_category_and_the_columns(bench: Bench) -> None:
    bench.create_pool(build_pool(placement="spread"))
    for word in ("gsp", "gpu", "gpusharepool", "gpusharepools.gpushare.io"):
        header, row = bench.cluster.kubectl("get", word).splitlines()
        assert header.split() == [
            *("NAME", "SCHEDULE", "PLACEMENT", "NODES", "READY", "UPDATING"),
            *("GPU-MEM", "MEM-SINCE", "STATUS", "AGE"),
        ]
        assert row.split()[:3] == ["training", "share", "spread"]
    header, row = bench.cluster.kubectl("get", "gsp", "-o", "wide").splitlines()
    assert header.split()[-4:] == ["EDITION", "RECONCILE", "WINDOW", "CONFIG"]
    assert row.split()[-2:] == ["Professional", "Enforce"]


def test_the_spec_is_not_written_through_the_status(bench: Bench) -> None:
    bench.create_pool(build_pool(node_pool="nobody"))
    bench.call("PATCH", f"{POOLS}/training/status", {"spec": {"schedule": "cgpu"}})
    assert bench.pool()["spec"]["schedule"] == "share"
