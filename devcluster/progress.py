"""Shows the progress of a build, from the output of the ``go`` command."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TextIO

_TERMINAL_SECONDS = 0.5
_LOG_SECONDS = 15.0
_LINKING = 0.035
"""Work of linking, as a part of that of all compiling."""
_TRUSTED_SECONDS = 30.0
_TRUSTED_SHARE = 0.1
_PROCESSORS = 2
"""Assumed work before this machine's speed is known: that of 2 cores, up to this share of all."""


@dataclass(frozen=True)
class BuildProgress:
    """Counts of packages; ``total`` is None until the packages to compile are known."""

    modules: int = 0
    packages: int = 0
    work: float = 0.0
    """Estimated processor seconds of compiling the packages."""
    total: "BuildProgress | None" = None

    def after(self, line: str) -> "BuildProgress":
        """Count a line of ``go``'s output; other lines change nothing.

        ``go list`` and ``go build -v`` print one import path a line, and ``go: downloading M V``
        for each module that the module cache lacks.
        """
        if line.startswith("go: downloading "):
            return replace(self, modules=self.modules + 1)
        if is_import_path(line):
            return replace(self, packages=self.packages + 1, work=self.work + _weigh(line))
        return self

    def sentence(self, elapsed_seconds: float, compiling_seconds: float) -> str:
        """Describe the progress in one line; compiling begins after fetching."""
        minutes, seconds = divmod(int(elapsed_seconds), 60)
        return f"{self._doing(compiling_seconds)} [{minutes}m{seconds:02d}s]"

    def _doing(self, compiling_seconds: float) -> str:
        if self.total is None:
            return f"fetching sources: {self.modules} modules downloaded"
        remaining = _describe(self._seconds_left(self.total, compiling_seconds))
        if self.packages < self.total.packages:
            share = int(100 * self.work / self.total.work)
            of = f"{self.packages} of {self.total.packages} packages ({share}%)"
            return f"compiling: {of}, {remaining} left"
        return f"linking: all {self.total.packages} packages are compiled, {remaining} left"

    def _seconds_left(self, total: "BuildProgress", compiling_seconds: float) -> float:
        trusted = min(_TRUSTED_SECONDS, _TRUSTED_SHARE * total.work)
        pace = (compiling_seconds + trusted / _PROCESSORS) / (self.work + trusted)
        return pace * ((1 + _LINKING) * total.work - self.work)


def _weigh(package: str) -> float:
    """Estimate a package's work; measured with Go 1.26 and Kubernetes 1.37's larger packages."""
    return 0.25 if package.startswith("k8s.io/") else 0.11


def _describe(seconds: float) -> str:
    return "less than a minute" if seconds < 60 else f"about {round(seconds / 60)} min"


def is_import_path(line: str) -> bool:
    """Tell whether a line of ``go`` is a package, not an error (``# pkg``, ``a.go:1: ...``)."""
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
        """Print the progress, unless that was done a moment ago."""
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
        """End the line, so that later output starts on its own."""
        if self._terminal:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
