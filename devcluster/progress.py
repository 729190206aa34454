"""How far a build is, from what the ``go`` command prints."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TextIO

_TERMINAL_SECONDS = 0.5
_LOG_SECONDS = 15.0
_LINKING = 0.035
"""What linking takes besides, of all the compiling."""
_TRUSTED_SECONDS = 30.0
_TRUSTED_SHARE = 0.1
_PROCESSORS = 2
"""So much work, but no more than that share of all, is taken to have been done on 2 cores before
anything was seen of this machine."""


@dataclass(frozen=True)
class BuildProgress:
    """Counts so far; ``total`` is None until the packages that need compiling are known."""

    modules: int = 0
    packages: int = 0
    work: float = 0.0
    """Seconds of one processor that compiling the packages takes, or took, about."""
    total: "BuildProgress | None" = None

    def after(self, line: str) -> "BuildProgress":
        """The counts once ``go`` has printed ``line``; a line that counts nothing changes nothing.

        ``go list`` and ``go build -v`` print one import path a line, and ``go: downloading M V``
        for each module that the module cache lacks.
        """
        if line.startswith("go: downloading "):
            return replace(self, modules=self.modules + 1)
        if is_import_path(line):
            return replace(self, packages=self.packages + 1, work=self.work + _weigh(line))
        return self

    def sentence(self, elapsed_seconds: float, compiling_seconds: float) -> str:
        """One line for a person; the compiling began after the fetching."""
        minutes, seconds = divmod(int(elapsed_seconds), 60)
        return f"{self._doing(compiling_seconds)} [{minutes}m{seconds:02d}s]"

    def _doing(self, compiling_seconds: float) -> str:
        if self.total is None:
            return f"fetching sources: {self.modules} modules downloaded"
        left = _describe(self._seconds_left(self.total, compiling_seconds))
        if self.packages < self.total.packages:
            share = int(100 * self.work / self.total.work)
            of = f"{self.packages} of {self.total.packages} packages ({share}%)"
            return f"compiling: {of}, {left} left"
        return f"linking: all {self.total.packages} packages are compiled, {left} left"

    def _seconds_left(self, total: "BuildProgress", compiling_seconds: float) -> float:
        trusted = min(_TRUSTED_SECONDS, _TRUSTED_SHARE * total.work)
        pace = (compiling_seconds + trusted / _PROCESSORS) / (self.work + trusted)
        return pace * ((1 + _LINKING) * total.work - self.work)


def _weigh(package: str) -> float:
    """Measured with Go 1.26 and Kubernetes 1.37, whose packages are larger than others'."""
    return 0.25 if package.startswith("k8s.io/") else 0.11


def _describe(seconds: float) -> str:
    return "less than a minute" if seconds < 60 else f"about {round(seconds / 60)} min"


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
        self._compiling = self._started

    def show(self, progress: BuildProgress) -> None:
        """Say where the build is, unless that was said a moment ago."""
        now = self._clock()
        if progress.total is None:
            self._compiling = now
        if now - self._shown < (_TERMINAL_SECONDS if self._terminal else _LOG_SECONDS):
            return
        self._shown = now
        sentence = progress.sentence(now - self._started, now - self._compiling)
        text = f"devcluster: {sentence}"
        self._stream.write(f"\r\x1b[K{text}" if self._terminal else f"{text}\n")
        self._stream.flush()

    def end(self) -> None:
        """Leave the line, so that what follows starts on its own."""
        if self._terminal:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
