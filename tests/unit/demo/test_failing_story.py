"""What a demo that fails says: the check's evidence, and what to do next."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from demo import __main__ as demo
from demo.checks import expect_equal
from demo.stage import KEPT_LOGS
from demo.story import Facts, Scene, step
from demo.view import View
from devcluster.editions import Edition
from devcluster.recordings import RecordedSeries


class EmptyStage:
    """Nothing is started, and commands print nothing."""

    def __init__(self) -> None:
        self.view = self
        self.output: list[str] = []
        self.ends: list[str] = []

    def open(self, report: object) -> None:
        pass

    def begin_step(self) -> None:
        pass

    def set(self, edition: Edition, nodes: Sequence[dict[str, Any]]) -> None:
        pass

    def record(self, series: Sequence[RecordedSeries]) -> None:
        pass

    def run(self, command: str, *, refused: bool = False) -> str:
        return ""

    def evidence(self) -> Iterator[tuple[str, str]]:
        yield "the pools", "training   0/1 ready"

    def keep_logs(self) -> None:
        self.ends.append("logs kept")

    def close(self) -> None:
        self.ends.append("closed")


@step("A look", "kubectl get pods", by_hand="the same")
def counted(view: View) -> Facts:
    yield "the pods are there"
    expect_equal({}, {"NoEligiblePool": 1}, "the pods that were counted")


@step("A look", "kubectl get pods", by_hand="the same")
def fine(view: View) -> Facts:
    yield "the pods are there"


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> EmptyStage:
    stage = EmptyStage()
    scenes = {
        "fine": Scene("One that holds", "a guide", "Basic", (), (fine,)),
        "faulty": Scene("One that does not", "a guide", "Basic", (), (fine, counted, fine)),
    }
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo, "Stage", lambda folder, operator: stage)
    monkeypatch.setattr(demo, "SCENES", scenes)
    return stage


def play(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(demo.app, list(arguments))
    return done.exit_code, " ".join(done.output.split())


@pytest.mark.parametrize(("arguments", "how"), [((), ""), (("--installation=helm",), " HELM=1")])
def test_a_demo_that_fails_shows_the_evidence_and_how_to_see_more(
    stage: EmptyStage, arguments: Sequence[str], how: str
) -> None:
    code, told = play(*arguments)
    assert code == 1
    for part in ("the pods that were counted", "{'NoEligiblePool': 1}", "{}", "0/1 ready"):
        assert part in told
    assert str(KEPT_LOGS) in told
    assert f"make demo SCENE=faulty KEEP=1{how} " in told
    summary = told[told.index("One that does not / A look:") :]
    assert "the pods that were counted" in summary
    assert told.endswith("demo: 2 passed, 1 failed")
    assert stage.ends == ["logs kept", "closed"]
