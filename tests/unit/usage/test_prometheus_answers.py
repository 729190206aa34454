"""Answers of Prometheus that are too long."""

import json
from pathlib import Path

import pytest

from gpushare.cli.cluster.access import Access
from gpushare.cli.exit_codes import Exit
from gpushare.cli.usage import prometheus as client
from gpushare.cli.usage.prometheus import TooMuchError, open_prometheus
from gpushare.cli.usage.prometheus_options import PrometheusOptions
from tests.kit.cluster.command_line import expect_error, run_command
from tests.kit.prometheus_double import PrometheusDouble, answering_prometheus

SNAPSHOT = Path(__file__).parents[2] / "browser/cluster.json"


def answer_too_long(double: PrometheusDouble, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_MOST_BYTES", 2**20)
    double.body = {"status": "success", "data": {"result": [0, "1"]}, "more": "x" * 2**20}


def test_an_answer_that_is_too_long_is_a_sentence_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with answering_prometheus() as double:
        answer_too_long(double, monkeypatch)
        ended = run_command("usage", "--prometheus", double.url, "--snapshot", str(SNAPSHOT))

    expect_error(ended, Exit.FAILURE, double.url, "more than 1 MiB", "shorter --window or -n")


@pytest.mark.parametrize("status", [200, 500])
async def test_through_the_api_server_too_no_more_is_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, status: int
) -> None:
    kubeconfig, options = tmp_path / "kubeconfig", PrometheusOptions("", "m/p:web", None, {})
    with answering_prometheus() as double:
        answer_too_long(double, monkeypatch)
        double.status = status
        named = {"name": "a", "cluster": {"server": double.url}}
        context = {"name": "a", "context": {"cluster": "a", "user": "a"}}
        user = {"name": "a", "user": {"token": "secret"}}
        config = {"clusters": [named], "contexts": [context], "users": [user]}
        kubeconfig.write_text(json.dumps(config | {"current-context": "a"}))
        async with open_prometheus(Access(kubeconfig), options) as prometheus:
            with pytest.raises(TooMuchError, match="more than 1 MiB"):
                await prometheus.query("up")
