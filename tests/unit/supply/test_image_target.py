"""By which engine `make image` builds."""

import os
import subprocess
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[3]
ENGINES = ("docker", "podman", "nerdctl")


def make_image(folder: Path, answering: set[str]) -> str:
    """What the engine was told to build, where those of `answering` run and the others don't."""
    for engine in ENGINES:
        program = folder / engine
        status = int(engine not in answering)
        program.write_text(f'#!/bin/sh\n[ "$*" = info ] && exit {status}\necho {engine} "$@"\n')
        program.chmod(0o755)
    return subprocess.run(
        ["make", "--silent", "image", "SOURCE=https://git.example", "BUILD_FLAGS=--push"],
        cwd=PROJECT,
        env=os.environ | {"PATH": f"{folder}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout


@pytest.mark.parametrize(
    ("answering", "begins"),
    [
        (set(ENGINES), "docker buildx build --push "),
        ({"podman", "nerdctl"}, "podman buildx build --push "),
        ({"nerdctl"}, "nerdctl build --push "),
    ],
)
def test_the_first_engine_that_answers_builds_it(
    tmp_path: Path, answering: set[str], begins: str
) -> None:
    told = make_image(tmp_path, answering)
    assert told.startswith(begins)
    assert " --build-arg SOURCE=https://git.example " in told
