"""Pools in files: taken and refused as the API server takes and refuses them."""

from collections.abc import Iterator

import pytest

from gpushare.api.crd import build_crd
from gpushare.api.manifest import ManifestError, find_check, parse_manifest
from tests.kit.values.manifests import Json, build_pool
from tests.kit.values.objects import NOW
from tests.unit.api.pool_specs import BY_LABEL, REFUSED, TAKEN


def list_rules(schema: Json) -> Iterator[Json]:
    yield from schema.get("x-kubernetes-validations", ())
    parts = [*schema.get("properties", {}).values(), schema.get("items")]
    for part in (*parts, schema.get("additionalProperties")):
        if isinstance(part, dict):
            yield from list_rules(part)


def test_every_rule_of_the_crd_is_checked() -> None:
    schema = build_crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    rules = list(list_rules(schema["properties"]["spec"]))
    assert len(rules) > 10
    for rule in rules:
        if "oldSelf" not in rule["rule"]:
            assert callable(find_check(rule["message"])), rule


@pytest.mark.parametrize(("spec", "sentence"), REFUSED.values(), ids=REFUSED.keys())
def test_what_the_api_server_refuses_is_refused(spec: Json, sentence: str) -> None:
    with pytest.raises(ManifestError, match="training: spec") as refused:
        parse_manifest(build_pool(**{"nodes": BY_LABEL, **spec}), NOW)
    # Types, lists and numbers are told in other words.
    is_other = any(word in sentence for word in ("in body", "supported", "items"))
    assert is_other or sentence in str(refused.value)


@pytest.mark.parametrize("spec", TAKEN.values(), ids=TAKEN.keys())
def test_what_the_api_server_takes_is_taken(spec: Json) -> None:
    pool = parse_manifest(build_pool(**{"nodes": BY_LABEL, **spec}), NOW)
    assert pool.spec.schedule == spec["schedule"]
    assert (pool.generation, pool.created, pool.deleting) == (1, NOW, False)


POOL = build_pool()


@pytest.mark.parametrize(
    ("raw", "sentence"),
    [
        (build_pool(scheduel="cgpu"), "unknown field spec.scheduel (did you mean schedule?)"),
        (build_pool(nodes={"names": [], "nams": []}), "spec.nodes.nams (did you mean names?)"),
        (build_pool(rollout={"zzz": 1}), "unknown field spec.rollout.zzz"),
        (build_pool(priority=True), "spec.priority: Input should be a valid integer"),
        (build_pool(nodes={"names": "n1"}), "spec.nodes.names: Input should be a valid array"),
        (build_pool(rollout={"maxUnavailable": 1.5}), "spec.rollout.maxUnavailable: "),
        (build_pool(rollout={"maxUnavailable": 1.5}), "it is 1.5"),
        (build_pool(rollout={"maxUnavailable": 0}), "percentage from 1% to 100%, but it is 0"),
        (
            build_pool(rollout={"maxUnavailable": "0%"}),
            "percentage from 1% to 100%, but it is '0%'",
        ),
        (build_pool(rollout={"maxUnavailable": "5"}), "percentage from 1% to 100%, but it is '5'"),
        (build_pool(nodes={"names": ["n1", 2]}), "spec.nodes.names[1]: "),
        (build_pool(priority=b"1"), "spec cannot be encoded as JSON"),
        (
            build_pool(nodes={"selector": {"matchLabels": {"team": 1}}}),
            "team: Input should be a valid string",
        ),
        ({**POOL, "metadata": {}}, "has no metadata.name"),
        ({**POOL, "metadata": None}, "has no metadata.name"),
        ({**POOL, "metadata": {"name": "Training"}}, "must be a DNS name"),
        ({**POOL, "metadata": {"name": "p" * 64}}, "at most 63 characters"),
        ({**POOL, "apiVersion": "gpushare.io/v1"}, "must be gpushare.io/v1alpha1"),
        ({**POOL, "spec": None}, "spec is missing"),
        ({**POOL, "spec": {"nodes": {"names": ["n1"]}}}, "spec: schedule is '', expected one of"),
        (
            {**POOL, "spec": {"nodes": {"names": ["n1"]}, "edition": "NVIDIA"}},
            "spec: the NVIDIA edition requires nvidia.config",
        ),
    ],
)
def test_what_is_misspelt_misshapen_or_no_pool_is_named(raw: Json, sentence: str) -> None:
    with pytest.raises(ManifestError) as refused:
        parse_manifest(raw, NOW)
    assert sentence in str(refused.value)


def test_what_is_null_counts_as_left_out() -> None:
    assert parse_manifest(build_pool(placement=None, rollout=None), NOW).spec.placement is None


def test_a_key_that_yaml_takes_for_a_number_is_text() -> None:
    pool = parse_manifest(build_pool(nodes={"selector": {"matchLabels": {1: "a"}}}), NOW)
    assert pool.spec.nodes.selector is not None
    assert pool.spec.nodes.selector.match_labels == {"1": "a"}


def test_the_retry_annotation_is_read() -> None:
    pool = build_pool()
    pool["metadata"]["annotations"] = {"gpushare.io/retry": "once more"}
    assert parse_manifest(pool, NOW).retry == "once more"
