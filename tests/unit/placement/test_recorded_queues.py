"""Queues that kube-scheduler played, with what was left pending each time.

`RECORD=FOLDER make test-simulate` writes snapshots and queues; those under tests/golden/queues were
taken from it.
"""

import json

import pytest

from tests.kit.cluster.simulated_queue import predict_pending
from tests.kit.values.doc_pages import PROJECT

QUEUES = PROJECT / "tests" / "golden" / "queues"
NAMES = sorted(file.name.removesuffix(".runs.json") for file in QUEUES.glob("*.runs.json"))


@pytest.mark.parametrize("name", NAMES)
def test_what_is_predicted_is_what_happened(name: str) -> None:
    runs = json.loads((QUEUES / f"{name}.runs.json").read_text())
    predicted = predict_pending(str(QUEUES / f"{name}.snapshot.json"), QUEUES / f"{name}.json")
    assert sorted(predicted) in runs


def test_ten_queues_are_recorded() -> None:
    assert len(NAMES) == 10
