"""A whole run as a file: its figures, and where and with what they were measured."""

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from gpushare import __version__
from tests.bench.figure import Figure


@dataclass(frozen=True)
class Machine:
    """Where a run took place; nothing that tells whose it is."""

    cores: int
    architecture: str
    python: str


@dataclass(frozen=True)
class Sizes:
    """How much was measured on: only runs of the same sizes are compared."""

    nodes: int
    middle: int
    """Nodes at the smaller of the two sizes."""
    rollout: int
    rounds: int


@dataclass(frozen=True)
class Result:
    """One whole run."""

    taken_at: str
    operator: str
    kubernetes: str
    machine: Machine
    sizes: Sizes
    seconds: Mapping[str, float]
    """How long each part took."""
    figures: tuple[Figure, ...]


def observe_machine() -> Machine:
    """This one; its cores are those that the process may use."""
    return Machine(
        cores=len(os.sched_getaffinity(0)),
        architecture=platform.machine(),
        python=platform.python_version(),
    )


def build_result(
    figures: Sequence[Figure],
    *,
    taken_at: str,
    kubernetes: str,
    sizes: Sizes,
    seconds: Mapping[str, float],
) -> Result:
    """The result of a run of this version of the operator on this machine."""
    machine = observe_machine()
    return Result(taken_at, __version__, kubernetes, machine, sizes, seconds, tuple(figures))


def write_result(result: Result, path: Path) -> None:
    """As JSON, in a folder that is made where it is missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(result), indent=2) + b"\n")


def read_result(path: Path) -> Result:
    """Raises ValueError with the file's name where it holds no result."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Result)
    except msgspec.DecodeError as error:
        raise ValueError(f"{path} is no result of a whole run ({error}); run make bench") from error
