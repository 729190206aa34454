"""How answers are printed: tables, data, and colours where there is a terminal."""

import os
import pty
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gpushare.api.cluster import Cluster
from gpushare.cli.exits import Exit
from gpushare.cli.output import Answer, Format, print_answer
from gpushare.cli.snapshots import build_snapshot
from tests.kit.cluster.command_line import SOURCE


def test_a_part_of_an_answer_is_not_printed(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> list[tuple[str]]:
        raise KeyError("second")

    with pytest.raises(KeyError):
        print_answer(Answer({}, table=lambda: [("first",), *fail()]), Format.TABLE)
    assert capsys.readouterr().out == ""


def test_who_stops_reading_is_told_nothing(tmp_path: Path) -> None:
    file = tmp_path / "cluster.json"
    file.write_bytes(build_snapshot(Cluster(datetime(2026, 3, 1, tzinfo=UTC))))
    command = [sys.executable, "-m", "gpushare", "inspect", "--snapshot", str(file)]
    reading, writing = os.pipe()
    os.close(reading)
    ended = subprocess.run(
        command,
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
        "from gpushare.cli.output import *\n"
        "line = ('plain ' * 5, Styled('red', 'red'))\n"
        "print_answer(Answer({}, table=lambda: [line]), Format.TABLE)"
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
