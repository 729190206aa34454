"""Output that comes out right wherever it goes: hostile names, locales, terminals, full disks."""

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpushare.cli.cluster.snapshot_file import build_snapshot
from gpushare.cli.exit_codes import Exit
from gpushare.cli.output.answer import Answer, Format, lay_out, print_answer, print_text
from gpushare.cli.output.control_characters import escape_controls
from gpushare.cli.output.data import render_manifests
from tests.kit.cluster.command_line import SOURCE, run_command, start_command
from tests.kit.values.manifests import build_bound_pod, build_node
from tests.unit.cli.test_snapshot_files import build_cluster

HOSTILE = "a\x1b[31m\nb\x9bc\x7f\t\u202egnp\u2066\u2028\x85"
HARMLESS = r"a\x1b[31m\x0ab\x9bc\x7f\x09\u202egnp\u2066\u2028\x85"
TEXT = "节点 [red]ü[/red] é"


Write = Callable[..., str]


@pytest.fixture
def write_snapshot(tmp_path: Path) -> Write:
    """A function that writes a snapshot with these nodes and pods, and says where."""

    def write(*nodes: Any, pods: Sequence[Any] = ()) -> str:
        file = tmp_path / "cluster.json"
        file.write_bytes(build_snapshot(build_cluster(nodes=nodes, pods=pods, pools=())))
        return str(file)

    return write


def show(command: str, snapshot: str, **environ: str) -> tuple[int, bytes, bytes]:
    """What a process gives whose output is `command`'s own, such as `> /dev/full`."""
    ended = subprocess.run(
        ["sh", "-c", f"exec {sys.executable} -m gpushare {command}"],
        env={"PYTHONPATH": str(SOURCE), "FILE": snapshot, "HOME": "/nonexistent", **environ},
        capture_output=True,
        check=False,
    )
    return ended.returncode, ended.stdout, ended.stderr


# What a cluster says.


def test_what_is_no_text_is_escaped_and_all_else_stays() -> None:
    assert escape_controls(HOSTILE) == HARMLESS
    assert escape_controls(TEXT) == TEXT


def test_a_cell_can_not_make_another_line(capsys: pytest.CaptureFixture[str]) -> None:
    table = lay_out(("NAME", "WHY"), [(HOSTILE, "x"), ("n", HOSTILE)])
    print_answer(Answer({}, lambda document, wide: table), Format.TABLE)
    width = len(HARMLESS) + 2
    shown = [f"{'NAME':<{width}}WHY", f"{HARMLESS:<{width}}x", f"{'n':<{width}}{HARMLESS}"]
    assert capsys.readouterr().out.splitlines() == shown


@pytest.mark.parametrize("details", [(), ("-d",), ("-o", "wide")])
def test_the_vendors_layout_has_as_many_lines_whatever_the_names(
    write_snapshot: Write, details: tuple[str, ...]
) -> None:
    def count(name: str) -> int:
        node = build_node(name, gpus=1, total=8, address=name)
        pods = [build_bound_pod(name, name, 4, card="0", namespace=name)]
        shown = run_command("inspect", *details, "--snapshot", write_snapshot(node, pods=pods)).out
        assert (HARMLESS in shown) is (name == HOSTILE)
        assert escape_controls(shown, but="\n") == shown
        return len(shown.splitlines())

    assert count(HOSTILE) == count("n1")


def test_a_sentence_of_hostile_names_is_a_sentence() -> None:
    told = start_command("inspect", "--snapshot", HOSTILE).err
    assert told.startswith("gpushare: ")
    assert escape_controls(told, but="\n") == told


@pytest.mark.parametrize(
    ("shown_as", "parse"), [(Format.JSON, json.loads), (Format.YAML, yaml.safe_load)]
)
def test_data_is_the_same_with_its_controls_escaped(
    shown_as: Format, parse: Callable[[str], Any], capsys: pytest.CaptureFixture[str]
) -> None:
    document = {"a": HOSTILE, HOSTILE: [TEXT, r"\x41 \u0041 \\x9b", "x" * 200 + HOSTILE]}
    print_answer(Answer(document, lambda document, wide: []), shown_as)
    printed = capsys.readouterr().out
    assert parse(printed) == document
    assert escape_controls(printed, but="\n") == printed


def test_a_comment_above_a_manifest_stays_one() -> None:
    manifest = {"metadata": {"name": "a"}, "spec": {}}
    text = render_manifests([HOSTILE], [manifest], {"a": [f"x\nkind: Pod {HOSTILE}"]})
    assert list(yaml.safe_load_all(text)) == [manifest]


def test_a_manifest_stays_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    print_text(HOSTILE)
    assert capsys.readouterr().out == HOSTILE


def test_amounts_may_have_more_than_64_bits(write_snapshot: Write) -> None:
    entry = {"0": {"0": 2**63 - 1}}
    pods = [build_bound_pod(name, "n1", 2**63 - 1, allocation=entry) for name in "abc"]
    file = write_snapshot(build_node("n1", gpus=1, total=8), pods=pods)
    shown = run_command("inspect", "-o", "json", "--snapshot", file)
    assert json.loads(shown.out)["allocated"] == 3 * (2**63 - 1)


# Where it goes.


def test_a_part_of_an_answer_is_not_printed(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> list[tuple[str]]:
        raise KeyError("second")

    with pytest.raises(KeyError):
        print_answer(Answer({}, lambda document, wide: [("first",), *fail()]), Format.TABLE)
    assert capsys.readouterr().out == ""


def test_who_stops_reading_is_told_nothing(write_snapshot: Write) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    ended = subprocess.run(
        [sys.executable, "-m", "gpushare", "inspect", "--snapshot", write_snapshot()],
        env={"PYTHONPATH": str(SOURCE)},
        stdout=writing,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (1, b"")


def print_on_terminal(**environ: str) -> bytes:
    """What a terminal of 20 columns gets of a longer line."""
    script = (
        "from gpushare.cli.output.answer import *\n"
        "line = ('plain ' * 5, Styled('red', 'red'))\n"
        "print_answer(Answer({}, lambda document, wide: [line]), Format.TABLE)"
    )
    ours, theirs = pty.openpty()
    environ = {"PYTHONPATH": str(SOURCE), "TERM": "xterm", "COLUMNS": "20", **environ}
    subprocess.run([sys.executable, "-c", script], env=environ, stdout=theirs, check=True)
    os.close(theirs)
    shown = os.read(ours, 1000)
    os.close(ours)
    return shown


def test_a_terminal_gets_colours_and_whole_lines() -> None:
    assert print_on_terminal() == b"plain " * 5 + b"\x1b[31mred\x1b[0m\r\n"


@pytest.mark.parametrize("variable", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_colours_can_be_declined(variable: dict[str, str]) -> None:
    assert print_on_terminal(**variable) == b"plain " * 5 + b"red\r\n"


def test_every_exit_code_stands_for_one_thing() -> None:
    assert [int(code) for code in Exit] == list(range(len(Exit)))
    assert len({code.meaning for code in Exit}) == len(Exit)


FULL = b"gpushare: standard output can't be written: No space left on device\n"


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("inspect --snapshot $FILE > /dev/full", FULL),
        ("inspect -o json --snapshot $FILE > /dev/full", FULL),
        ("inspect --help > /dev/full", FULL),
        ("--version > /dev/full", FULL),
        ("completion bash > /dev/full", FULL),
        ("render scheduler-config --extender-url http://127.0.0.1:1 > /dev/full", FULL),
        ("inspect --snapshot $FILE >&-", b"gpushare: standard output is closed\n"),
    ],
)
def test_an_output_that_can_not_be_written_is_said_in_a_sentence(
    command: str, told: bytes, write_snapshot: Write
) -> None:
    assert show(command, write_snapshot()) == (Exit.FAILURE, b"", told)


@pytest.mark.parametrize(
    ("options", "shown"), [("", rb"\u8282"), ("-o json", "节".encode()), ("-o yaml", "节".encode())]
)
def test_where_a_character_is_lacking_people_see_its_number_and_data_is_utf_8_all_the_same(
    options: str, shown: bytes, write_snapshot: Write
) -> None:
    file = write_snapshot(build_node("节", gpus=1, total=8))
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    code, out, told = show(f"inspect {options} --snapshot $FILE", file, **ascii_only)
    assert (code, told) == (Exit.OK, b"")
    assert shown in out


def test_wide_characters_keep_columns_in_line(capsys: pytest.CaptureFixture[str]) -> None:
    table = lay_out(("NAME", "N"), [("节点四", "1"), ("n", "2")])
    print_answer(Answer({}, lambda document, wide: table), Format.TABLE)
    assert capsys.readouterr().out == "NAME    N\n节点四  1\nn       2\n"


# What is typed.


def test_the_version_is_told() -> None:
    assert run_command("--version").out.startswith("gpushare 0.")


def test_help_has_a_short_name() -> None:
    assert run_command("inspect", "-h").out == run_command("inspect", "--help").out


def test_the_device_of_standard_error_need_not_be_there(
    write_snapshot: Write,
) -> None:
    assert show("inspect n1 --snapshot $FILE 2>&-", write_snapshot())[0] == Exit.NOT_FOUND
