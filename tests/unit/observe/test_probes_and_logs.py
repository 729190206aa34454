"""/metrics, /livez, /readyz, and the log lines."""

import io
import json
import logging
from collections.abc import Iterator

import pytest
from aiohttp.test_utils import TestClient, TestServer

from gpushare.observe.http import Check, build_app
from gpushare.observe.logs import configure_logs
from gpushare.observe.metrics import Metrics


async def get(path: str, *, liveness: list[Check], readiness: list[Check]) -> tuple[int, str]:
    app = build_app(Metrics().registry, liveness=liveness, readiness=readiness)
    async with TestClient(TestServer(app)) as client, client.get(path) as response:
        return response.status, await response.text()


async def test_metrics_are_served_as_prometheus_text() -> None:
    status, text = await get("/metrics", liveness=[], readiness=[])
    assert status == 200
    assert "# TYPE gpushare_build_info gauge" in text


async def test_a_process_without_flaws_is_live_and_ready() -> None:
    fine: list[Check] = [lambda: None]
    for path in ("/livez", "/readyz"):
        assert await get(path, liveness=fine, readiness=fine) == (200, "ok\n")


async def test_a_process_that_is_not_ready_says_each_reason_and_stays_live() -> None:
    flaws: list[Check] = [lambda: "pools are not known yet", lambda: None, lambda: "no lease"]
    status, text = await get("/readyz", liveness=[], readiness=flaws)
    assert (status, text) == (503, "pools are not known yet\nno lease\n")
    assert (await get("/livez", liveness=[], readiness=flaws))[0] == 200


@pytest.fixture
def restored_logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level


@pytest.mark.usefixtures("restored_logging")
def test_a_log_line_is_one_json_object_with_what_the_call_added() -> None:
    stream = io.StringIO()
    configure_logs("info", stream)
    logging.getLogger("gpushare.test").info("took %s", "over", extra={"pool": "training"})
    line = json.loads(stream.getvalue())
    assert line.pop("ts").startswith("20")
    assert line == {
        "level": "INFO",
        "logger": "gpushare.test",
        "msg": "took over",
        "pool": "training",
    }


@pytest.mark.usefixtures("restored_logging")
def test_an_exception_stays_on_its_line() -> None:
    stream = io.StringIO()
    configure_logs("INFO", stream)
    try:
        raise RuntimeError("boom\nbang")
    except RuntimeError:
        logging.getLogger("gpushare.test").exception("failed")
    (line,) = stream.getvalue().splitlines()
    assert "boom" in json.loads(line)["exc_info"]


@pytest.mark.usefixtures("restored_logging")
def test_what_is_below_the_level_is_not_logged() -> None:
    stream = io.StringIO()
    configure_logs("WARNING", stream)
    logging.getLogger("gpushare.test").info("quiet")
    assert stream.getvalue() == ""


def test_a_level_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="LOUD"):
        configure_logs("loud", io.StringIO())


@pytest.mark.usefixtures("restored_logging")
def test_what_json_has_no_word_for_is_logged_as_text() -> None:
    stream = io.StringIO()
    configure_logs("INFO", stream)
    extra = {"size": 2**70, "file": "\udcff", "kind": object}
    logging.getLogger("gpushare.test").info("odd", extra=extra)
    line = json.loads(stream.getvalue())
    assert (line["size"], line["file"], line["kind"]) == (2**70, "\udcff", "<class 'object'>")
