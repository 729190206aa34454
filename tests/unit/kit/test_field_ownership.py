"""The simulated API server keeps owners of fields as the real one does."""

from gpushare import names
from tests.kit.histories.field_ownership import (
    CORDON,
    SimulatedNode,
    apply_fields,
    observe_node,
    release_fields,
    write_field,
)

MODE, POOL = names.LABEL_SCHEDULE, names.LABEL_POOL
NODE = SimulatedNode("gpu-1", "uid-1")


def test_an_equal_value_is_shared_and_stays_when_one_owner_lets_go() -> None:
    node = apply_fields(write_field(NODE, CORDON, "true", "kubectl-cordon"), {CORDON: "true"})
    assert node.owners(CORDON) == {"kubectl-cordon", names.FIELD_MANAGER}
    released = apply_fields(node, {})
    assert observe_node(released).unschedulable
    assert not observe_node(released).owns_cordon


def test_another_value_is_taken_from_its_owner() -> None:
    node = apply_fields(write_field(NODE, MODE, "share", "kubectl-label"), {MODE: "cgpu"})
    assert node.labels == {MODE: "cgpu"}
    assert node.owners(MODE) == {names.FIELD_MANAGER}


def test_a_plain_write_of_the_value_that_is_there_makes_nobody_an_owner() -> None:
    node = apply_fields(NODE, {CORDON: "true"})
    assert write_field(node, CORDON, "true", "kubectl-cordon") == node


def test_a_release_keeps_labels_and_takes_annotations_away() -> None:
    applied = {MODE: "cgpu", POOL: "training", names.ANNOTATION_APPLIED: "{}"}
    node = release_fields(apply_fields(NODE, applied), {POOL: "training"})
    assert node.labels == {MODE: "cgpu"}
    assert not node.annotations
    assert not observe_node(node).owned
