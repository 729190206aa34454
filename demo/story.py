"""A story in scenes and steps: what a person does, did before, and what comes of it."""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from demo.stage import Stage
from demo.view import View
from devcluster.editions import Edition
from devcluster.errors import DevclusterError

Facts = Iterator[str]

_INDENT = 4
_LABEL_WIDTH = 8


@dataclass(frozen=True)
class Step:
    """One step: commands that a person types, and a look at what came of them.

    ``see`` yields sentences, each once it is true; it raises a DevclusterError where one is not.
    """

    title: str
    commands: tuple[str, ...]
    by_hand: str
    see: Callable[[View], Facts]


@dataclass(frozen=True)
class Scene:
    """A guide, or a part of one, on nodes of its own; a step may build on those before it."""

    title: str
    source: str
    edition: Edition
    nodes: tuple[dict[str, Any], ...]
    steps: tuple[Step, ...]


def step(title: str, *commands: str, by_hand: str) -> Callable[[Callable[[View], Facts]], Step]:
    """Make a Step of the function that sees what came of it."""
    return lambda see: Step(title, commands, by_hand, see)


@dataclass
class Story:
    """Plays scenes on a stage, tells them on a console, and keeps the score."""

    stage: Stage
    console: Console
    passed: int = 0
    failed: int = 0

    def play(self, scene: Scene) -> None:
        """Play the scene up to its end or to the first step that fails."""
        self.console.print()
        self.console.print(Rule(Text(scene.title, style="bold"), align="left", style="dim"))
        self._line("source", Text(scene.source, style="dim"))
        try:
            self.stage.set(scene.edition, scene.nodes)
        except DevclusterError as error:
            self._fail(error)
            return
        for number, step in enumerate(scene.steps, start=1):
            if not self._play_step(step):
                if left := len(scene.steps) - number:
                    self._line("", Text(f"{left} more steps of this scene were left out"))
                return

    def summary(self) -> str:
        """The score, as the last line has it."""
        return f"demo: {self.passed} passed, {self.failed} failed"

    def _play_step(self, step: Step) -> bool:
        self.console.print()
        self.console.print(Padding(Text(step.title, style="bold"), (0, 0, 0, 2)))
        self._lines("you run", (Text(f"$ {command}", style="cyan") for command in step.commands))
        self._line("by hand", Text(step.by_hand, style="dim"))
        begin = time.monotonic()
        try:
            self.stage.view.begin_step()
            for command in step.commands:
                self.stage.run(command)
            self._lines("happens", (Text(fact) for fact in step.see(self.stage.view)))
        except DevclusterError as error:
            self._fail(error)
            return False
        self.passed += 1
        self._line("", Text.assemble(("✓", "bold green"), f" {time.monotonic() - begin:.1f} s"))
        return True

    def _fail(self, error: DevclusterError) -> None:
        self.failed += 1
        self._line("", Text.assemble(("✗ ", "bold red"), str(error)))
        for title, evidence in self.stage.evidence():
            self._line("", Text(title, style="bold"))
            self._line("", Text(evidence, style="dim"))

    def _lines(self, label: str, texts: Iterable[Text]) -> None:
        for text in texts:
            self._line(label, text)
            label = ""

    def _line(self, label: str, text: Text) -> None:
        row = Table.grid(padding=(0, 2, 0, 0))
        row.add_column(width=_LABEL_WIDTH, no_wrap=True, style="dim")
        row.add_column(overflow="fold")
        row.add_row(label, text)
        self.console.print(Padding(row, (0, 0, 0, _INDENT)))
