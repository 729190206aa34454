"""What the Dockerfile says, without building it (`tests/image` carries it out)."""

import json
import re
from pathlib import Path

from tests.image.dockerfile import parse_dockerfile

PROJECT = Path(__file__).parents[3]
STAGES = parse_dockerfile((PROJECT / "Dockerfile").read_text())
FINAL = STAGES[-1]


def test_the_only_image_from_outside_is_named_by_its_digest() -> None:
    names = {stage.name for stage in STAGES}
    (outside,) = {stage.base for stage in STAGES} - names
    assert re.fullmatch(r"python:3\.\d+\.\d+-slim-[a-z]+@sha256:[0-9a-f]{64}", outside)


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
