"""What `gpushare simulate` predicts is what kube-scheduler does, for random queues.

`make test-simulate` plays them (QUEUES=N a stage); what is seen is printed, and kept in
docs/simulate.md.
"""

import os
from pathlib import Path

import pytest

from tests.integration.simulate.queues import STAGES, draw_queue, play
from tests.kit.bench import Bench

_QUEUES = int(os.environ.get("QUEUES", "20"))
_RUNS = range(3, 9)
"""Times that each queue is played: at least, and at most where the runs differ."""
_LEAST_RIGHT = 0.95


@pytest.mark.long
@pytest.mark.timeout(5400)
def test_which_pods_stay_pending_is_as_predicted(bench: Bench, tmp_path: Path) -> None:
    folder = Path(os.environ.get("RECORD", str(tmp_path)))
    played = []
    for name, stage in STAGES.items():
        bench.clear()
        stage.build(bench)
        for seed in range(_QUEUES):
            queue = draw_queue(stage, seed)
            played.append(play(bench, f"{name}-{seed}", queue, folder, _RUNS))
            print(f"{'ok ' if played[-1].is_right else 'OFF'} {played[-1]}", flush=True)
    settled = [each for each in played if each.is_settled]
    right = sum(each.is_right for each in settled)
    print(f"{right} of {len(settled)} settled queues as predicted; ", end="")
    print(f"{sum(each.is_right for each in played)} of all {len(played)}")
    assert right >= _LEAST_RIGHT * len(settled)
    assert [str(each) for each in played if not each.is_settled and not each.is_right] == []
    assert [str(each) for each in played if each.difference > 1] == []
