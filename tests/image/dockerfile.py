"""The Dockerfile, read and carried out where there is no container engine."""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Template
from types import MappingProxyType

INERT = frozenset({"ENTRYPOINT", "LABEL", "USER"})
"""Instructions that change no file of the image."""


@dataclass(frozen=True, slots=True)
class Stage:
    """FROM `base` AS `name`; where `base` is an earlier stage, its instructions come first."""

    base: str
    name: str
    instructions: tuple[tuple[str, str], ...]
    """Keyword and the rest of the line, continuation lines joined."""

    def all(self, keyword: str) -> list[str]:
        return [rest for found, rest in self.instructions if found == keyword]


def parse_dockerfile(text: str) -> tuple[Stage, ...]:
    """The stages in their order; an ARG before the first belongs to none."""
    stages: list[Stage] = []
    for keyword, rest in _logical_lines(text):
        if keyword == "ARG" and not stages:
            continue
        if keyword == "FROM":
            base, _, name = rest.partition(" AS ")
            inherited = next((stage.instructions for stage in stages if stage.name == base), ())
            stages.append(Stage(base, name, inherited))
        else:
            last = stages.pop()
            stages.append(Stage(last.base, last.name, (*last.instructions, (keyword, rest))))
    return tuple(stages)


def _logical_lines(text: str) -> Iterator[tuple[str, str]]:
    kept = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    for line in "\n".join(kept).replace("\\\n", "").splitlines():
        keyword, rest = line.split(None, 1)
        yield keyword, rest


class Replay:
    """What stages do to files, in a folder that stands for the image's root.

    All stages share that folder. Absolute paths in ENV, WORKDIR and COPY are taken to be in it; RUN
    must name such paths by variables. The Python is the machine's own in place of the base image's,
    and pip is configured as it is here. Raises ValueError for an instruction it does not know.
    """

    def __init__(
        self, context: Path, root: Path, build_args: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self._context = context
        self._root = root
        self._build_args = build_args
        self._allowed, self._ignored = _parse_dockerignore(context / ".dockerignore")

    def build(self, stage: Stage) -> None:
        system = os.pathsep.join([f"{sys.base_prefix}/bin", "/usr/bin", "/bin"])
        pip = {key: value for key, value in os.environ.items() if key.startswith("PIP_")}
        environment = {"HOME": str(self._root), "PATH": system, **pip}
        work = self._root
        for keyword, rest in stage.instructions:
            if keyword == "ENV":
                environment |= self.read_environment(rest, environment)
            elif keyword == "ARG":
                name, _, default = rest.partition("=")
                if value := self._build_args.get(name, default):
                    environment[name] = value
            elif keyword == "WORKDIR":
                work = self._place(rest)
                work.mkdir(parents=True)
            elif keyword == "COPY":
                *sources, target = shlex.split(rest)
                for source in sources:
                    self._copy(source, work / target, into=target.endswith("/"))
            elif keyword == "RUN":
                subprocess.run(["/bin/sh", "-euc", rest], cwd=work, env=environment, check=True)
            elif keyword not in INERT:
                raise ValueError(f"{keyword} is not played; teach it to tests/image/dockerfile.py")

    def keep(self, final: Stage) -> Path:
        """Leave the folder that `final` copies from another stage, and say where it is."""
        (copied,) = final.all("COPY")
        origin, source, target = shlex.split(copied)
        if not origin.startswith("--from=") or source != target:
            raise ValueError(f"COPY {copied}: only from another stage, to the same path")
        place = self._place(target)
        aside = place.rename(self._root.with_name("aside"))
        shutil.rmtree(self._root)
        place.parent.mkdir(parents=True)
        return aside.rename(place)

    def read_environment(self, rest: str, known: Mapping[str, str]) -> dict[str, str]:
        """What an ENV sets, with its paths in the folder."""
        return {
            key: ":".join(
                str(self._place(part)) if part.startswith("/") else Template(part).substitute(known)
                for part in value.split(":")
            )
            for key, value in (pair.split("=", 1) for pair in shlex.split(rest))
        }

    def _place(self, path: str) -> Path:
        return self._root / path.removeprefix("/")

    def _copy(self, source: str, target: Path, *, into: bool) -> None:
        if not any(f"{source}/".startswith(f"{allowed}/") for allowed in self._allowed):
            raise ValueError(f"COPY {source}: .dockerignore keeps it out of the build")
        origin = self._context / source
        if origin.is_dir():
            leave = shutil.ignore_patterns(*self._ignored)
            shutil.copytree(origin, target, symlinks=True, ignore=leave)
        else:
            folder = target if into else target.parent
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copy(origin, target / origin.name if into or target.is_dir() else target)


def _parse_dockerignore(file: Path) -> tuple[set[str], set[str]]:
    """The paths that are let in, and the names that are left out at any depth."""
    lines = [line for line in file.read_text().splitlines() if line and not line.startswith("#")]
    allowed = {line[1:] for line in lines if line.startswith("!")}
    ignored = {line.removeprefix("**/") for line in lines if line.startswith("**/")}
    if "*" not in lines or len(lines) != 1 + len(allowed) + len(ignored):
        raise ValueError(f"{file}: only *, !PATH and **/NAME are understood")
    return allowed, ignored
