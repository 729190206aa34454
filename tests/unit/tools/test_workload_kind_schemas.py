"""The paths of other projects' kinds, in what is kept of their CRDs."""

import json
from typing import Any

import pytest

from gpushare.workload_kinds import WORKLOAD_KINDS, PodsPlace, WorkloadKind
from tools.workload_kind_schemas import FILE, find_missing

SCHEMAS: dict[str, Any] = json.loads(FILE.read_text())
OTHERS = [each for each in WORKLOAD_KINDS if not each.is_built_in]


@pytest.mark.parametrize("kind", OTHERS, ids=lambda kind: kind.key)
def test_each_path_is_in_the_projects_own_schema(kind: WorkloadKind) -> None:
    versions = [found["schema"] for found in SCHEMAS[kind.key].values()]
    # An older version that is still served may lack a field.
    missing = set.intersection(*(set(find_missing(kind, schema)) for schema in versions))
    assert missing == set()


def test_a_path_that_the_schema_lacks_is_found() -> None:
    (found,) = SCHEMAS["jobsets.jobset.x-k8s.io"].values()
    place = PodsPlace.model_validate({"path": "spec.replicatedJobs[*].template.spec"})
    kind = OTHERS[0].model_copy(update={"templates": (place,)})
    assert "spec.replicatedJobs.[*].template.spec.spec.containers" in find_missing(
        kind, found["schema"]
    )
