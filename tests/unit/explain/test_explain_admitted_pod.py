"""A pod as its owner wrote it, told from what admission made of it."""

import pytest

from gpushare.analysis.explain.admitted_pod import rewind
from gpushare.api.decision_annotation import PastDecision, parse_past_decision
from gpushare.api.k8s.pod_shape import parse_pod_shape
from gpushare.names import Reason
from tests.kit.values.manifests import build_pod
from tests.kit.values.pool_views import a_view, admit, apply_decision

DECISION = "gpushare.io/decision"


def test_what_was_decided_is_read_from_the_annotation() -> None:
    text = '{"v":1,"reason":"Routed","pool":"a","lost":{"NoRoom":["b","c"]},"more":2}'
    assert parse_past_decision({DECISION: text}) == PastDecision(
        "Routed", "a", {"NoRoom": ("b", "c")}, 2
    )


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", "3", "null", "{}"),
        '{"reason":"R","lost":[1]}',
        '{"reason":"R","more":"x"}',
        '{"reason":"R","lost":{"a":3}}',
        f'{{"reason":"{"R" * 2000}"}}',
    ],
)
def test_anybody_may_have_written_it(text: str) -> None:
    assert parse_past_decision({DECISION: text}) is None


def test_what_its_owner_selected_stays() -> None:
    raw = build_pod("p", selects={"gpushare.io/pool": "training"})
    created = apply_decision(raw, admit(raw, a_view()))
    assert DECISION in created["metadata"]["annotations"]
    rewound = rewind(parse_pod_shape(created), [a_view()])
    assert rewound.spec is not None
    assert rewound.spec.node_selector == {"gpushare.io/pool": "training"}


def test_a_node_stays_that_was_named_before_admission() -> None:
    raw = build_pod("p", nodeName="gpu-1")
    decision = admit(raw, a_view())
    assert decision.reason is Reason.NOT_ROUTED
    rewound = rewind(parse_pod_shape(apply_decision(raw, decision)), [a_view()])
    assert rewound.spec is not None
    assert rewound.spec.node_name == "gpu-1"


@pytest.mark.parametrize(
    "ledger",
    [{"ALIYUN_COM_GPU_MEM_IDX": "0"}, {"scheduler.framework.gpushare.allocation": "{}"}],
)
def test_a_node_goes_that_the_scheduler_wrote_on_a_pod_that_selects_a_hostname(
    ledger: dict[str, str],
) -> None:
    raw = build_pod("p", selects={"kubernetes.io/hostname": "gpu-1"})
    decision = admit(raw, a_view())
    assert decision.reason is Reason.NOT_ROUTED
    bound = apply_decision(raw, decision)
    bound["spec"]["nodeName"] = "gpu-1"
    bound["metadata"]["annotations"] |= ledger
    rewound = rewind(parse_pod_shape(bound), [a_view()])
    assert rewound.spec is not None
    assert rewound.spec.node_name is None
