"""The lists of the admission policy's expressions are those of the program."""

import ast
import re
from collections.abc import Iterable

import pytest

from devcluster.startup import CHART
from gpushare import names
from gpushare.api.k8s.node_selection import CHOOSING, FOLLOWING
from gpushare.core.admission.pool_view import MOST_REQUIREMENTS
from gpushare.workload_kinds import HELD_BY_KUEUE

PARTS = (CHART / "templates" / "_policy.tpl").read_text()
POLICY = (CHART / "templates" / "admission-policy.yaml").read_text()


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ("resources", names.GPU_RESOURCES),
        ("choosing", CHOOSING),
        ("following", FOLLOWING),
        ("heldByKueue", HELD_BY_KUEUE),
        ("admittedByKueue", names.KUEUE_ADMITTED_LABELS),
    ],
)
def test_a_list_of_the_policy_is_the_programs(part: str, expected: Iterable[str]) -> None:
    found = re.search(rf'define "gpushare\.policy\.{part}" -}}}}\n(\[.*\])\n', PARTS)
    assert found is not None
    # The table joins resources in this order.
    assert ast.literal_eval(found[1]) == sorted(expected)


def test_the_policy_reads_affinities_that_are_as_long_as_those_that_the_webhook_reads() -> None:
    assert f"sum() > {MOST_REQUIREMENTS}" in POLICY
