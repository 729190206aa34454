"""`gpushare migrate workloads` on files: what it prints, what it writes, and how it fails."""

import json
import subprocess
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from gpushare.cli.exit_codes import CommandError, Exit
from gpushare.cli.input.manifest_files import ManifestFile, write_folder
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


def test_the_whole_folder_is_written_anew(folder: Path, tmp_path: Path) -> None:
    made = tmp_path / "migrated"
    ended = migrate("-f", folder, "-R", "--output-dir", made)
    assert (ended.code, ended.out) == (0, "")
    written = {str(file.relative_to(made)) for file in made.rglob("*") if file.is_file()}
    assert written == {"app.yaml", "other.yml", "more/app.json"}
    assert (made / "app.yaml").read_text() == MIGRATED
    assert (folder / "app.yaml").read_text() == APP


# How it fails: nothing is printed, nothing is written.


def test_a_folder_that_holds_something_is_not_written_to(folder: Path) -> None:
    before = sorted(folder.rglob("*"))
    expect_error(migrate("-f", folder, "--output-dir", folder), Exit.FAILURE, "is there already")
    assert sorted(folder.rglob("*")) == before


def test_a_folder_that_can_not_be_made_leaves_nothing(folder: Path, tmp_path: Path) -> None:
    ended = migrate("-f", folder, "--output-dir", tmp_path / "no/where")
    expect_error(ended, Exit.FAILURE, "can't be written")
    assert list(tmp_path.iterdir()) == [folder]


def test_a_file_that_is_half_a_place_of_another_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(APP)
    (tmp_path / "b/a").mkdir(parents=True)
    (tmp_path / "b/a/c.yaml").write_text(APP)
    made = tmp_path / "made"
    ended = migrate("-f", tmp_path / "a", "-f", tmp_path / "b", "-R", "--output-dir", made)
    expect_error(ended, Exit.FAILURE, "can't be written")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"a: {{ .Values.gpu }}\nb: [", "; a template is to be rendered first"),
        (b"a: &a [*a]", "is no manifest: "),
        (b"\xff\xfe", "is no UTF-8 text"),
    ],
)
def test_one_broken_file_is_enough(folder: Path, text: bytes, why: str) -> None:
    (folder / "broken.yaml").write_bytes(text)
    expect_error(migrate("-f", folder), Exit.MANIFEST, "broken.yaml", why)


def test_files_that_there_are_not(tmp_path: Path) -> None:
    expect_error(migrate("-f", tmp_path / "no.yaml"), Exit.MANIFEST, "no.yaml: No such file")
    expect_error(migrate("-f", tmp_path), Exit.NOT_FOUND, "has no *.yaml, *.yml or *.json")


def test_two_files_of_one_name_have_one_place(folder: Path) -> None:
    both = ("-f", folder, "-f", folder / "app.yaml")
    ended = migrate(*both, "--output-dir", folder / "made")
    expect_error(ended, Exit.USAGE, "app.yaml are both app.yaml")
    assert migrate(*both).out.count("--- a/") == 2


def test_a_patch_has_lines_where_a_file_has(tmp_path: Path) -> None:
    """What ends a line for Python besides is in the middle of one for a patch."""
    file = tmp_path / "app.yaml"
    text = APP.replace("name: app", 'name: "an\u2028app"')
    file.write_bytes(text.encode())
    diff = migrate("-f", file).out.encode()
    subprocess.run(["patch", "-p1", "-d", "/"], input=diff, check=True)
    assert file.read_bytes() == text.replace("nvidia.com/gpu: 1", "aliyun.com/gpu-mem: 15").encode()


@pytest.mark.parametrize("place", ["../out.yaml", "a/../../out.yaml", "/out.yaml", "a\0.yaml"])
def test_nothing_is_written_outside_the_folder(tmp_path: Path, place: str) -> None:
    made = tmp_path / "made"
    with pytest.raises(CommandError, match="would be written outside"):
        write_folder(made, [ManifestFile("good", "good.yaml", ""), ManifestFile("bad", place, "")])
    assert list(tmp_path.iterdir()) == []
