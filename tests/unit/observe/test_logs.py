"""The log's lines: whatever is said, each is one JSON object."""

import asyncio
import gc
import io
import json
import logging
import sys
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from gpushare.observe.logs import (
    MAX_LINE,
    JsonFormatter,
    configure_logs,
    log_what_nobody_caught,
    reporting,
)

log = logging.getLogger("gpushare.test")


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """What is logged from INFO up; logging is as before at the end."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    stream = io.StringIO()
    configure_logs("INFO", stream)
    yield stream
    root.handlers[:], root.level = handlers, level


def read(stream: io.StringIO) -> dict[str, Any]:
    """The one line that was written."""
    assert stream.getvalue().count("\n") == 1, stream.getvalue()
    line: dict[str, Any] = json.loads(stream.getvalue())
    return line


def test_a_line_is_one_json_object_with_what_the_call_added(stream: io.StringIO) -> None:
    log.info("took %s", "over", extra={"pool": "training"})
    line = read(stream)
    line.pop("ts")
    assert line == {
        "level": "INFO",
        "logger": "gpushare.test",
        "msg": "took over",
        "pool": "training",
    }


def form(**record: object) -> dict[str, Any]:
    """The line of a record, without handlers of others that would see it too."""
    line: dict[str, Any] = json.loads(JsonFormatter().format(logging.makeLogRecord(record)))
    return line


def test_what_a_change_is_about_comes_in_one_order(stream: io.StringIO) -> None:
    with reporting(phase="over"):
        pass
    with reporting(reconcile_id="1", generation=3, reason="Cordoned"):
        log.info("cordoned", extra={"size": 1, "node": "n1", "pool": "training"})
    assert list(read(stream))[4:] == [
        "pool",
        "node",
        "reason",
        "generation",
        "reconcile_id",
        "size",
    ]


async def test_a_task_says_what_the_work_is_about_that_started_it(stream: io.StringIO) -> None:
    async def work() -> None:
        with reporting(node="n1"):
            await asyncio.sleep(0)
            log.info("done")

    with reporting(reconcile_id="1", generation=None):
        task = asyncio.create_task(work())
    await task
    line = read(stream)
    assert (line["reconcile_id"], line["node"]) == ("1", "n1")
    assert "generation" not in line


@pytest.mark.parametrize(
    "text",
    ["a\nb\r", "\x00\x1b[31m", "\x7f", "\x85\u2028", "\x9b2J\u202e", "\u4e2d\u6587", '"}\\'],
    ids=["line ends", "terminal", "delete", "Unicode", "direction", "Chinese", "quotes"],
)
def test_no_character_breaks_a_line_or_reaches_a_terminal(stream: io.StringIO, text: str) -> None:
    log.info("%s", text, extra={"pool": text, text: 1})
    written = stream.getvalue().removesuffix("\n")
    assert written.isascii()
    assert written.isprintable()
    line = json.loads(written)
    assert (line["msg"], line["pool"], line[text]) == (text, text, 1)


def test_a_line_is_never_too_long_for_a_container_runtime(stream: io.StringIO) -> None:
    try:
        raise RuntimeError("\x01" * 50_000 + "the end")
    except RuntimeError:
        log.exception("no" * 50_000, extra={"pool": "\u4e2d" * 50_000, "list": ["x"] * 50_000})
    assert len(stream.getvalue()) <= MAX_LINE
    line = read(stream)
    assert line["msg"].startswith("nono")
    assert line["exc_info"].endswith("the end")


def test_credentials_that_an_error_of_a_library_quotes_are_left_out(stream: io.StringIO) -> None:
    url = "http://user:hunter2@proxy.example:3128/"
    headers = {"Authorization": "Bearer hunter2.x-y_z", "Proxy-Authorization": "Basic hunter2=="}
    try:
        raise RuntimeError(f"{url!r} answered 407 to {headers}")
    except RuntimeError:
        log.exception("by %s", url, extra={"url": url})
    line = read(stream)
    assert "hunter2" not in str(line)
    assert line["msg"] == "by http://...@proxy.example:3128/"
    assert "answered 407" in line["exc_info"]


@pytest.mark.parametrize(
    "name", ["authorization': 'x", "Authorization': '\\", "authorization': '\""]
)
def test_a_name_that_looks_like_them_breaks_no_line(stream: io.StringIO, name: str) -> None:
    log.info("refused", extra={"pod": name, "pool": "training"})
    line = read(stream)
    assert (line["msg"], line["pool"]) == ("refused", "training")


def test_what_only_looks_a_little_like_them_stays(stream: io.StringIO) -> None:
    said = "app@sha256:1 lacks authorization on Basic nodes, as https://docs.example/a@b says"
    log.info("%s", said)
    assert read(stream)["msg"] == said


def test_what_json_has_no_word_for_is_logged_as_text() -> None:
    line = form(
        created=1_800_000_000.0625, msg="odd \udcff", size=2**70, kind=object, file="\udcff"
    )
    assert (line["size"], line["kind"], line["file"]) == (2**70, "<class 'object'>", "\udcff")
    assert line["msg"] == "odd \udcff"
    assert line["ts"] == "2027-01-15T08:00:00.062Z"


class Mute:
    """It can't be written down."""

    def __str__(self) -> str:
        raise RuntimeError("no")


def test_what_can_not_be_written_down_is_a_line_all_the_same() -> None:
    assert form(msg="%d of %d", args=("secret",))["msg"] == "%d of %d"
    line = form(msg="about %s", args=(Mute(),), thing=Mute())
    assert (line["msg"], line["thing"]) == ("about %s", "a Mute")


@pytest.fixture
def caught(stream: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    """The log, where the interpreter's own complaints go too."""
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    log_what_nobody_caught()
    yield stream
    logging.captureWarnings(False)


def test_a_warning_is_a_line(caught: io.StringIO) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(True)
        warnings.warn("old\nway", DeprecationWarning, stacklevel=1)
    assert "old\nway" in read(caught)["msg"]


def test_an_error_that_ended_a_thread_is_a_line(caught: io.StringIO) -> None:
    def fail() -> None:
        raise RuntimeError("boom")

    thread = threading.Thread(target=fail)
    thread.start()
    thread.join()
    line = read(caught)
    assert line["level"] == "CRITICAL"
    assert "boom" in line["exc_info"]


class Fragile:
    """It can't be thrown away."""

    def __del__(self) -> None:
        raise RuntimeError("boom")


def test_an_error_that_nobody_could_be_told_of_is_a_line(caught: io.StringIO) -> None:
    Fragile()
    gc.collect()
    assert "boom" in read(caught)["exc_info"]
