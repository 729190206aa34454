"""What the webhook's log says of pods: a line for each decision."""

import logging
from typing import Any

import pytest

from gpushare.core.admission.request import Rules
from gpushare.webhook.decision_log import MAX_NAME
from gpushare.webhook.handler import AdmissionHandler
from tests.kit.values.manifests import Json, build_gpu_pod, build_review, encode
from tests.kit.values.webhook_server import build_handler, build_memory, until


@pytest.fixture
def logged(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> pytest.LogCaptureFixture:
    """Everything that is said, without delay."""
    monkeypatch.setattr("gpushare.webhook.decision_log.FLUSH_SECONDS", 0.0)
    caplog.set_level(logging.DEBUG, "gpushare")
    return caplog


async def read_lines(logged: pytest.LogCaptureFixture) -> list[Json]:
    """The lines about pods, once they are written."""
    await until(lambda: logged.records)
    return [line for record in logged.records for _, line in vars(record)["lines"]]


def ask(handler: AdmissionHandler, metadata: Json, **request: Any) -> None:
    """Have it decide on a pod with `metadata`."""
    pod = build_gpu_pod() | {"metadata": metadata}
    handler.mutate_pod(encode(build_review(pod, **request))).account()


async def test_a_pod_that_is_sent_somewhere_is_one_line(logged: pytest.LogCaptureFixture) -> None:
    ask(build_handler(), {"name": "job", "namespace": "elsewhere"})
    assert await read_lines(logged) == [
        {
            "level": "INFO",
            "msg": "Assigned to pool training (cgpu)",
            "pool": "training",
            "reason": "Routed",
            "namespace": "default",
            "pod": "job",
        }
    ]


@pytest.mark.parametrize(
    ("metadata", "request_fields", "level"),
    [
        ({}, {}, "WARNING"),
        ({"annotations": {"gpushare.io/inject": "disabled"}}, {}, "DEBUG"),
        ({}, {"dryRun": True}, "DEBUG"),
    ],
    ids=["refused", "disabled", "dry run"],
)
async def test_a_refusal_is_a_warning_and_what_changes_nothing_no_news(
    logged: pytest.LogCaptureFixture, metadata: Json, request_fields: Json, level: str
) -> None:
    refusing = build_handler(build_memory(()), rules=Rules(denies=True))
    ask(refusing, {"name": "job", **metadata}, **request_fields)
    (line,) = await read_lines(logged)
    assert line["level"] == level
    assert "pool" not in line


@pytest.mark.parametrize(
    ("metadata", "name"),
    [
        ({"name": "job", "generateName": "web-"}, "job"),
        ({"generateName": "web-"}, "web-"),
        ({"name": "job\n" * 200}, ("job?" * 200)[: MAX_NAME - 3] + "..."),
        ({}, ""),
    ],
)
async def test_a_line_names_the_pod_as_far_as_it_has_a_name(
    logged: pytest.LogCaptureFixture, metadata: Json, name: str
) -> None:
    ask(build_handler(), metadata)
    (line,) = await read_lines(logged)
    assert line["pod"] == name
