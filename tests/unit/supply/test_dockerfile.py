"""What the Dockerfile says, without building it (`tests/image` carries it out)."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from devcluster.images import read_base
from tests.image.dockerfile import parse_dockerfile

PROJECT = Path(__file__).parents[3]
DOCKERFILE = (PROJECT / "Dockerfile").read_text()
STAGES = parse_dockerfile(DOCKERFILE)
FINAL = STAGES[-1]


def test_the_only_image_from_outside_is_named_by_its_digest() -> None:
    names = {stage.name for stage in STAGES}
    (outside,) = {stage.base for stage in STAGES} - names
    pinned = r"\$BASE_REGISTRY/python:3\.\d+\.\d+-slim-[a-z]+@sha256:[0-9a-f]{64}"
    assert re.fullmatch(pinned, outside)


def test_the_base_image_comes_from_docker_hub_unless_another_registry_is_named() -> None:
    hub = read_base(DOCKERFILE)
    assert re.fullmatch(r"docker\.io/library/python@sha256:[0-9a-f]{64}", hub)
    copied = read_base(DOCKERFILE, {"BASE_REGISTRY": "registry.example.com/mirror"})
    assert copied == hub.replace("docker.io/library", "registry.example.com/mirror")


def test_the_package_index_is_an_argument_of_the_stage_that_builds_and_in_no_image() -> None:
    build = next(stage for stage in STAGES if stage.name == "build")
    keywords = [keyword for keyword, _ in build.instructions]
    assert "PIP_INDEX_URL" in build.all("ARG")
    assert keywords.index("ARG") < keywords.index("RUN")
    assert "INDEX" not in str(FINAL.instructions)


@pytest.mark.parametrize(
    ("given", "passed"),
    [
        ((), set()),
        (
            ("BASE_REGISTRY=registry.example.com/mirror", "PIP_INDEX_URL=https://index.example"),
            {"BASE_REGISTRY=registry.example.com/mirror", "PIP_INDEX_URL=https://index.example"},
        ),
    ],
)
def test_make_passes_the_mirrors_that_it_is_given_and_no_other(
    given: tuple[str, ...], passed: set[str]
) -> None:
    told = subprocess.run(
        ["make", "--silent", "--eval=flags: ; @echo $(IMAGE_FLAGS)", "flags", *given],
        cwd=PROJECT,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    mirrors = re.findall(r"--build-arg ((?:BASE_REGISTRY|PIP_INDEX_URL)=\S+)", told)
    assert set(mirrors) == passed


def test_no_step_depends_on_the_platform() -> None:
    text = (PROJECT / "Dockerfile").read_text()
    assert re.findall(r"amd64|arm64|x86_64|aarch64|--platform", text) == []


def test_it_runs_as_the_user_that_the_chart_names() -> None:
    helpers = (PROJECT / "chart/templates/_helpers.tpl").read_text()
    ids = [
        re.findall(rf"^ *{key}: (\d+)$", helpers, re.MULTILINE)[0]
        for key in ("runAsUser", "runAsGroup")
    ]
    assert FINAL.all("USER") == [":".join(ids)]
    assert "0" not in ids


def test_the_charts_args_are_the_programs() -> None:
    scripts = (PROJECT / "pyproject.toml").read_text().partition("[project.scripts]")[2]
    (program,) = json.loads(FINAL.all("ENTRYPOINT")[-1])
    assert re.search(rf"^{program} = ", scripts, re.MULTILINE)
