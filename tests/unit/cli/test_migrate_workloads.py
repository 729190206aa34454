"""`gpushare migrate workloads` on files: what it prints, and how it fails."""

import json
import subprocess
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from gpushare.cli.exit_codes import Exit
from gpushare.cli.main import app
from tests.kit.cluster.command_line import CommandResult, expect_error, run_command

APP = """\
# The app.
kind: Pod
metadata: {name: app}
spec:
  containers:
  - name: main
    resources:
      limits: {nvidia.com/gpu: 1}   # a card
"""
MIGRATED = APP.replace("nvidia.com/gpu: 1", "aliyun.com/gpu-mem: 15")
OTHER = "# Nothing of GPUs.\nkind: ConfigMap\nmetadata:   {name: other}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Manifests of which one is to be migrated; another is in a folder of its own."""
    folder = tmp_path / "manifests"
    (folder / "more").mkdir(parents=True)
    (folder / "app.yaml").write_text(APP)
    (folder / "other.yml").write_text(OTHER)
    (folder / "notes.txt").write_text("nvidia.com/gpu")
    (folder / "more/app.json").write_text(json.dumps(yaml.safe_load(APP)))
    return folder


def migrate(*arguments: str | Path) -> CommandResult:
    return run_command("migrate", "workloads", "--card-memory-gib", "15", *map(str, arguments))


def test_the_patch_can_be_applied(folder: Path) -> None:
    file = folder / "app.yaml"
    file.write_text(APP.rstrip())
    diff = migrate("-f", folder, "-R").out
    done = subprocess.run(["patch", "-p1", "-d", "/"], input=diff, text=True, check=True)
    assert done.returncode == 0
    assert file.read_text() == MIGRATED.rstrip()
    assert migrate("-f", folder, "-R").out == ""


def test_standard_input_is_a_file_too() -> None:
    arguments = ["migrate", "workloads", "--card-memory-gib", "15", "-f", "-", "-o", "yaml"]
    done = CliRunner().invoke(app, arguments, input=APP)
    assert (done.exit_code, done.stdout) == (0, MIGRATED)


# How it fails: nothing is printed.


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"a: {{ .Values.gpu }}\nb: [", "Render the template first"),
        (b"a: &a [*a]", "is not a manifest: "),
        (b"\xff\xfe", "is not UTF-8 text"),
    ],
)
def test_one_broken_file_is_enough(folder: Path, text: bytes, why: str) -> None:
    (folder / "broken.yaml").write_bytes(text)
    expect_error(migrate("-f", folder), Exit.MANIFEST, "broken.yaml", why)


def test_files_that_there_are_not(tmp_path: Path) -> None:
    expect_error(migrate("-f", tmp_path / "no.yaml"), Exit.MANIFEST, "no.yaml: No such file")
    expect_error(migrate("-f", tmp_path), Exit.NOT_FOUND, "has no *.yaml, *.yml or *.json")


def test_a_patch_has_lines_where_a_file_has(tmp_path: Path) -> None:
    """What ends a line for Python besides is in the middle of one for a patch."""
    file = tmp_path / "app.yaml"
    text = APP.replace("name: app", 'name: "an\u2028app"')
    file.write_bytes(text.encode())
    diff = migrate("-f", file).out.encode()
    subprocess.run(["patch", "-p1", "-d", "/"], input=diff, check=True)
    assert file.read_bytes() == text.replace("nvidia.com/gpu: 1", "aliyun.com/gpu-mem: 15").encode()
