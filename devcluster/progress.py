"""How far a build is, from what the ``go`` command prints."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TextIO

_TERMINAL_SECONDS = 0.5
_LOG_SECONDS = 15.0


@dataclass(frozen=True)
class BuildProgress:
    """Counts so far; ``total`` is None until the packages that need compiling are known."""

    modules: int = 0
    packages: int = 0
    total: int | None = None

    def after(self, line: str) -> "BuildProgress":
        """The counts once ``go`` has printed ``line``; a line that counts nothing changes nothing.

        ``go list`` and ``go build -v`` print one import path a line, and ``go: downloading M V``
        for each module that the module cache lacks.
        """
        if line.startswith("go: downloading "):
            return replace(self, modules=self.modules + 1)
        if is_import_path(line):
            return replace(self, packages=self.packages + 1)
        return self

    def sentence(self, elapsed_seconds: float) -> str:
        """One line for a person."""
        minutes, seconds = divmod(int(elapsed_seconds), 60)
        return f"{self._doing()} [{minutes}m{seconds:02d}s]"

    def _doing(self) -> str:
        if self.total is None:
            return f"fetching sources: {self.modules} modules downloaded"
        if self.packages < self.total:
            share = 100 * self.packages // self.total
            return f"compiling: {self.packages} of {self.total} packages ({share}%)"
        return f"linking: all {self.total} packages are compiled"


def is_import_path(line: str) -> bool:
    """Whether ``go`` named a package rather than complained (``# pkg``, ``a.go:1: ...``)."""
    return bool(line) and " " not in line and not line.startswith("#") and ":" not in line


class ProgressLine:
    """Shows a :class:`BuildProgress`: on a terminal one line that changes, else 15 s apart."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._terminal = stream.isatty()
        self._started = clock()
        self._shown = self._started

    def show(self, progress: BuildProgress) -> None:
        """Say where the build is, unless that was said a moment ago."""
        now = self._clock()
        if now - self._shown < (_TERMINAL_SECONDS if self._terminal else _LOG_SECONDS):
            return
        self._shown = now
        text = f"devcluster: {progress.sentence(now - self._started)}"
        self._stream.write(f"\r\x1b[K{text}" if self._terminal else f"{text}\n")
        self._stream.flush()

    def end(self) -> None:
        """Leave the line, so that what follows starts on its own."""
        if self._terminal:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
