"""Plays a story in scenes and steps: a user's commands, and their results."""

import textwrap
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.rule import Rule
from rich.text import Text

from demo.stage import Stage
from demo.view import View
from devcluster.editions import Edition
from devcluster.errors import DevclusterError
from devcluster.recordings import RecordedSeries

Facts = Iterator[str]

_NOTES = ("Warning:", "Error ")  # what kubectl's lines begin with when it has something to say
_PLUGIN = "kubectl gpushare "
_NO_PROMETHEUS = (
    "It needs Prometheus, which `.venv/bin/python -m devcluster build --prometheus` builds in "
    "about 4 minutes"
)
_MARGIN = 14  # left of what is said: the indent and the label, as in `    happens   `


@dataclass(frozen=True)
class Step:
    """A step: a user's commands, and a check of their results.

    ``see`` yields sentences, each once it is true; it raises a DevclusterError where one is not.
    """

    title: str
    commands: tuple[str, ...]
    by_hand: str
    see: Callable[[View], Facts]
    refused: bool = False
    """Whether each of the commands must fail, since the cluster refuses it."""


@dataclass(frozen=True)
class Scene:
    """A guide, or a part of one, on nodes of its own; a step may build on those before it."""

    title: str
    source: str
    edition: Edition
    nodes: tuple[dict[str, Any], ...]
    steps: tuple[Step, ...]
    recording: tuple[RecordedSeries, ...] = ()
    """What a Prometheus has recorded by then, at $PROMETHEUS; without one the scene is left out."""
    needs_policies: bool = False
    """Whether it is left out where the API server serves no MutatingAdmissionPolicy."""


def step(
    title: str, *commands: str, by_hand: str, refused: bool = False
) -> Callable[[Callable[[View], Facts]], Step]:
    """Make a Step of the function that checks its results."""
    return lambda see: Step(title, commands, by_hand, see, refused)


@dataclass
class Story:
    """Plays scenes on a stage, prints them on a console, and counts failures."""

    stage: Stage
    console: Console
    passed: int = 0
    failures: list[str] = field(default_factory=list)
    """Failures with their scenes and steps."""

    def play(self, scene: Scene) -> bool:
        """Play the scene up to its end or its first failing step; return whether no step failed."""
        self.console.print()
        self.console.print(Rule(Text(scene.title, style="bold"), align="left", style="dim"))
        self._lines("source", [scene.source], style="dim")
        if scene.recording and not self.stage.has_prometheus:
            self._lines("left out", [_NO_PROMETHEUS], style="dim")
            return True
        if scene.needs_policies and not self.stage.serves_policies:
            self._lines("left out", ["It needs Kubernetes 1.36"], style="dim")
            return True
        try:
            self.stage.set(scene.edition, scene.nodes)
            self.stage.record(scene.recording)
        except Exception as error:
            self._fail(scene.title, error)
            return False
        for number, step in enumerate(scene.steps, start=1):
            if not self._play_step(scene, step):
                if remaining := len(scene.steps) - number:
                    self._lines("", [f"{remaining} more steps of this scene were left out"])
                return False
        return True

    def summary(self) -> str:
        """Return the failures, and the score in the last line."""
        score = f"demo: {self.passed} passed, {len(self.failures)} failed"
        return "\n".join([*self.failures, score])

    def _play_step(self, scene: Scene, step: Step) -> bool:
        self.console.print()
        self.console.print(Text(f"  {step.title}", style="bold"))
        self._lines("you run", step.commands, style="cyan")
        self._lines("by hand", [step.by_hand], style="dim")
        begin = time.monotonic()
        try:
            self.stage.view.begin_step()
            for command in step.commands:
                lines = self.stage.run(command, refused=step.refused).splitlines()
                self.stage.view.output += lines
                if command.startswith(_PLUGIN):
                    self._lines("you see", lines, verbatim=True)
                elif any(line.startswith(_NOTES) for line in lines):
                    self._lines("kubectl", lines, style="yellow")
            self._lines("happens", step.see(self.stage.view))
        except Exception as error:  # whatever goes wrong in a step is this step's failure
            self._fail(f"{scene.title} / {step.title}", error)
            return False
        self.passed += 1
        self._lines("", [f"✓ {time.monotonic() - begin:.1f} s"], style="green")
        return True

    def _fail(self, where: str, error: Exception) -> None:
        expected = isinstance(error, DevclusterError)
        message = str(error) if expected else f"{type(error).__name__}: {error}"
        self.failures.append(f"✗ {where}: {message}")
        self._lines("", [f"✗ {message}"], style="red")
        for title, evidence in self.stage.evidence():
            self._lines("", [f"{title}:"])
            self._lines("", evidence.splitlines(), style="dim")

    def _lines(
        self, label: str, texts: Iterable[str], *, style: str = "", verbatim: bool = False
    ) -> None:
        """Print texts one below the other, each as soon as there is one; the first with a label.

        A table is ``verbatim``: its lines keep their width.
        """
        for text in texts:
            for line in [text] if verbatim else self._wrap(text):
                head = (f"{'':4}{label:{_MARGIN - 4}}", "dim")
                self.console.print(Text.assemble(head, (line, style)), soft_wrap=True)
                label = ""

    def _wrap(self, text: str) -> list[str]:
        return textwrap.wrap(
            text,
            self.console.width - _MARGIN,
            subsequent_indent=" " * (len(text) - len(text.lstrip())),
            break_on_hyphens=False,
            replace_whitespace=False,
        )
