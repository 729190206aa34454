"""What the page is told of pods' use: by a Prometheus that may be slow, absent, or say no."""

import asyncio
import json
import socket
from collections.abc import Callable, Mapping
from contextlib import aclosing
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest

from gpushare.analysis.placement.cluster import find_members
from gpushare.analysis.usage.card_pods import list_card_pods
from gpushare.analysis.usage.exporters import EXPORTERS
from gpushare.api.pruned.cluster import Cluster
from gpushare.cli.cluster.access import Access
from gpushare.cli.cluster.snapshot import observe_cluster
from gpushare.cli.cluster.snapshot_file import parse_snapshot
from gpushare.cli.exit_codes import CommandError, Exit
from gpushare.cli.ui import feed as feeding
from gpushare.cli.ui import use as using
from gpushare.cli.ui.feed import Feed
from gpushare.cli.ui.use import PrometheusUse, UseFeed, UseReading, describe_use
from gpushare.cli.usage.prometheus_options import PrometheusOptions
from tests.kit.cluster.command_line import run_command
from tests.kit.prometheus_double import answering_prometheus

SNAPSHOT = Path(__file__).parents[2] / "browser/cluster.json"
CLUSTER = parse_snapshot(SNAPSHOT.read_bytes(), "cluster.json")
SEEN = observe_cluster(CLUSTER)
PODS = tuple(list_card_pods(SEEN, CLUSTER.pods, find_members(SEEN.snapshot), None))
GIB = 2**30
HAMI, DCGM = EXPORTERS[2], EXPORTERS[-1]
MOMENT = datetime(2026, 11, 30, 10, tzinfo=UTC)


def a_reading(used: Mapping[str, float], moment: datetime = MOMENT) -> UseReading:
    """A reading of GiB by namespace and name."""
    series = []
    for pod, gib in used.items():
        namespace, _, name = pod.partition("/")
        labels = {HAMI.namespace: namespace, HAMI.pod: name}
        series.append((labels, ((0.0, gib * GIB),)))
    return UseReading(moment, ((HAMI, tuple(series)),))


class Readings:
    """Readings that come when the test says so."""

    def __init__(self, *results: UseReading | Exception) -> None:
        self.results: asyncio.Queue[UseReading | Exception] = asyncio.Queue()
        for result in results:
            self.results.put_nowait(result)
        self.begun = 0

    async def __call__(self) -> UseReading:
        self.begun += 1
        result = await self.results.get()
        if isinstance(result, Exception):
            raise result
        return result


async def tell_when(feed: Feed, holds: Callable[[Any], bool]) -> Any:
    """What is told once that holds."""
    while True:
        told = orjson.loads(feed.tell()[0])
        if holds(told):
            return told
        await asyncio.sleep(0.01)


def is_read(told: Any) -> bool:
    return told["use"]["readAt"] is not None


def has_failed(told: Any) -> bool:
    return told["use"]["problem"] is not None


def is_of_day(day: int, told: Any) -> bool:
    taken: str = told["takenAt"]
    return taken.startswith(f"2027-01-{day:02}")


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (feeding, using):
        monkeypatch.setattr(module, "PERIOD_SECONDS", 0.01)
    monkeypatch.setattr(feeding, "SHARE", 0)


# The document.


def test_without_a_prometheus_nothing_is_told_of_use() -> None:
    told = orjson.loads(Feed("context test", CLUSTER).tell()[0])
    assert "use" not in told


async def test_what_pods_use_is_told_once_it_is_read_and_unknown_where_nothing_reports_it() -> None:
    readings = Readings()
    async with aclosing(Feed("context test", CLUSTER, use=UseFeed(readings))) as feed:
        first = orjson.loads(feed.tell()[0])["use"]
        assert (first["readAt"], first["problem"]) == (None, None)
        assert {pod["usedGib"] for pod in first["pods"].values()} == {None}

        readings.results.put_nowait(a_reading({"speech/tts": 3.4, "vision/resnet-3": 9.5}))
        told = (await tell_when(feed, is_read))["use"]
    assert told["readAt"] == "2026-11-30T10:00:00+00:00"
    assert told["pods"]["speech/tts"] == {
        "node": "cn-beijing.10.0.1.13",
        "cards": 1,
        "askedGib": 5.0,
        "usedGib": 3.4,
        "beyond": False,
        "unknown": None,
    }
    # This node isolates, and the driver counts a little more.
    assert told["pods"]["vision/resnet-3"]["beyond"] is False
    unknown = told["pods"]["vision/embed"]
    assert (unknown["usedGib"], unknown["unknown"]) == (None, "NotMeasured")


def test_only_the_series_of_a_card_is_said_to_be_what_is_missing() -> None:
    labels = {DCGM.namespace: "speech", DCGM.pod: "tts"}
    reading = UseReading(MOMENT, ((DCGM, ((labels, ((0.0, 9000.0),)),)),))
    told = describe_use(PODS, reading, None)["pods"]["speech/tts"]
    assert (told["usedGib"], told["unknown"]) == (None, "CardShared")


async def test_before_the_operator_is_installed_use_is_told_too() -> None:
    cluster = replace(CLUSTER, pools=None)
    async with aclosing(Feed("context test", cluster, use=UseFeed(Readings()))) as feed:
        told = orjson.loads(feed.tell()[0])
    assert "speech/tts" in told["use"]["pods"]


# Beside a Prometheus that does not do as it should.


@pytest.mark.usefixtures("at_once")
async def test_one_that_never_answers_delays_nothing() -> None:
    clusters = (replace(CLUSTER, taken_at=datetime(2027, 1, day, tzinfo=UTC)) for day in (1, 2))

    async def read() -> Cluster:
        return next(clusters, CLUSTER)

    readings = Readings()
    async with aclosing(Feed("context test", CLUSTER, read, UseFeed(readings))) as feed:
        for day in (1, 2):
            told = await tell_when(feed, partial(is_of_day, day))
            assert (told["problem"], is_read(told), has_failed(told)) == (None, False, False)
    assert readings.begun == 1


@pytest.mark.usefixtures("at_once")
async def test_after_a_failure_nothing_is_known_with_the_reason_until_a_reading_succeeds() -> None:
    readings = Readings(a_reading({"speech/tts": 3.4}))
    async with aclosing(Feed("context test", CLUSTER, use=UseFeed(readings))) as feed:
        await tell_when(feed, is_read)
        readings.results.put_nowait(CommandError(Exit.FORBIDDEN, "a right is\nmissing \udcff"))
        told = await tell_when(feed, has_failed)
        problem, tts = told["use"]["problem"], told["use"]["pods"]["speech/tts"]
        assert (problem["code"], problem["message"]) == (5, r"a right is missing \udcff")
        assert (tts["usedGib"], tts["unknown"], told["problem"]) == (None, None, None)

        readings.results.put_nowait(ValueError("a mistake"))
        told = await tell_when(feed, lambda told: told["use"]["problem"]["code"] == Exit.FAILURE)
        assert told["use"]["problem"]["since"] == problem["since"]
        readings.results.put_nowait(a_reading({"speech/tts": 1.0}))
        told = await tell_when(feed, is_read)
    assert (told["use"]["problem"], told["use"]["pods"]["speech/tts"]["usedGib"]) == (None, 1.0)


async def test_it_is_asked_once_in_half_a_minute_whether_it_answers_or_not() -> None:
    for result in (a_reading({}), CommandError(Exit.FAILURE, "no")):
        readings = Readings(result, result)
        async with aclosing(Feed("context test", CLUSTER, use=UseFeed(readings))) as feed:
            await tell_when(feed, lambda told: is_read(told) or has_failed(told))
            for _ in range(10):
                feed.tell()
                await asyncio.sleep(0)
        assert readings.begun == 1
    assert using.PERIOD_SECONDS == 30


@pytest.mark.usefixtures("at_once")
async def test_what_was_used_at_a_moment_that_is_past_is_read_once() -> None:
    past = Readings(CommandError(Exit.FAILURE, "no"), a_reading({}), a_reading({}))
    feed = Feed("snapshot", CLUSTER, use=UseFeed(past, is_past=True))
    async with aclosing(feed):
        await tell_when(feed, is_read)
        for _ in range(3):
            feed.tell()
            await asyncio.sleep(0.02)
    assert past.begun == 2


@pytest.mark.usefixtures("at_once")
async def test_a_pod_that_appears_later_has_the_use_that_was_read_for_it() -> None:
    reads: asyncio.Queue[Cluster] = asyncio.Queue()
    readings = Readings(a_reading({"speech/tts": 3.4}))
    (tts,) = (pod for pod in CLUSTER.pods if pod["metadata"]["name"] == "tts")
    without = replace(CLUSTER, pods=tuple(pod for pod in CLUSTER.pods if pod is not tts))
    async with aclosing(Feed("context test", without, reads.get, UseFeed(readings))) as feed:
        told = await tell_when(feed, is_read)
        assert "speech/tts" not in told["use"]["pods"]
        reads.put_nowait(CLUSTER)
        told = await tell_when(feed, lambda told: "speech/tts" in told["use"]["pods"])
    assert told["use"]["pods"]["speech/tts"]["usedGib"] == 3.4


# What is asked, and what is made of the answers.


def build_source(url: str, moment: datetime | None = None, **labels: str) -> PrometheusUse:
    return PrometheusUse(Access(), PrometheusOptions(url, "", None, labels), moment)


async def read_problem(source: PrometheusUse) -> str:
    """The sentence that the page shows when this is read."""
    use = UseFeed(source.read)
    await use.renew()
    assert use.problem is not None
    message: str = use.problem["message"]
    assert "internal error" not in message
    return message


async def test_every_exporter_is_asked_what_pods_use_now() -> None:
    with answering_prometheus() as prometheus:
        prometheus.report(HAMI, {"speech/tts": 3.4 * GIB})
        prometheus.report(DCGM, {"vision/embed": 12 * 1024})
        reading = await build_source(prometheus.url).read()
    assert [path for path, _ in prometheus.asked] == ["/api/v1/query"] * len(EXPORTERS)
    told = describe_use(PODS, reading, None)["pods"]
    assert told["speech/tts"]["usedGib"] == 3.4
    assert told["vision/embed"]["unknown"] == "CardShared"


async def test_of_a_snapshot_it_is_asked_what_pods_used_when_that_was_taken() -> None:
    with answering_prometheus() as prometheus:
        prometheus.report(HAMI, {"speech/tts": GIB})
        reading = await build_source(prometheus.url, MOMENT).read()
    at = f"{MOMENT.timestamp():.0f}"
    assert {(path, asked["start"], asked["end"]) for path, asked in prometheus.asked} == {
        ("/api/v1/query_range", at, at)
    }
    assert reading.moment == MOMENT
    assert describe_use(PODS, reading, None)["pods"]["speech/tts"]["usedGib"] == 1.0


async def test_only_series_with_the_labels_that_were_given_are_asked_for() -> None:
    with answering_prometheus() as prometheus:
        message = await read_problem(build_source(prometheus.url, cluster="prod"))
    assert all('cluster="prod"' in asked["query"] for _, asked in prometheus.asked)
    assert "no series of pods now" in message
    assert "cluster=prod" in message


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (200, "<html>sign in</html>", "no answer of Prometheus"),
        (200, [], "no answer of Prometheus"),
        (200, {"status": "success", "data": {"result": [7]}}, "does not answer as Prometheus"),
        (
            200,
            {"status": "success", "data": {"result": [{"metric": 1, "value": [0, "1"]}]}},
            "does not answer as Prometheus",
        ),
        (200, {"status": "success", "data": None}, "does not answer as Prometheus"),
        (200, {"status": "error"}, "does not answer as Prometheus"),
        (401, {"error": "<b>who?</b>"}, "401 (<b>who?</b>)"),
        (403, "", "a right is missing"),
        (404, "", "Check the address"),
        (422, {"error": "too many samples"}, "too many samples"),
        (503, "", "503"),
    ],
)
async def test_what_it_says_in_place_of_an_answer_is_a_sentence(
    status: int, body: Any, expected: str
) -> None:
    with answering_prometheus() as prometheus:
        prometheus.status, prometheus.body = status, body
        assert expected in await read_problem(build_source(prometheus.url))


async def test_one_that_is_not_there_and_one_that_is_silent_are_told_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, monkeypatch.context() as impatient:
        impatient.setattr(using, "PATIENCE_SECONDS", 0.2)
        port = silent.getsockname()[1]
        message = await read_problem(build_source(f"http://127.0.0.1:{port}"))
        assert message == f"Prometheus (http://127.0.0.1:{port}) does not answer in time"
    assert "no Prometheus at" in await read_problem(build_source(f"http://127.0.0.1:{port}"))


async def test_the_file_with_the_token_is_read_again_and_its_absence_is_a_sentence(
    tmp_path: Path,
) -> None:
    config = tmp_path / "http.yaml"
    with answering_prometheus() as prometheus:
        prometheus.report(HAMI, {"speech/tts": GIB})
        options = PrometheusOptions(prometheus.url, "", config, {})
        source = PrometheusUse(Access(), options)
        assert "http.yaml" in await read_problem(source)
        config.write_text("authorization: {credentials: secret}")
        await source.read()
        config.write_text("authorisation: {credentials: secret}")
        assert "authorisation" in await read_problem(source)


async def test_through_the_api_server_one_connection_is_kept_for_as_long_as_it_works(
    tmp_path: Path,
) -> None:
    """A new one may start the kubeconfig's credential plugin."""
    kubeconfig = tmp_path / "kubeconfig"
    with answering_prometheus() as prometheus:
        prometheus.report(HAMI, {"speech/tts": GIB})
        named = {"name": "a", "cluster": {"server": prometheus.url}}
        context = {"name": "a", "context": {"cluster": "a", "user": "a"}}
        user = {"name": "a", "user": {"token": "secret"}}
        config = {"current-context": "a", "clusters": [named], "contexts": [context]}
        text = json.dumps(config | {"users": [user]})
        kubeconfig.write_text(text)
        options = PrometheusOptions("", "monitoring/prometheus:web", None, {})
        async with aclosing(PrometheusUse(Access(kubeconfig), options)) as source:
            await source.read()
            kubeconfig.unlink()
            reading = await source.read()
            prometheus.status = 403
            assert "a right is missing" in await read_problem(source)
            assert "kubeconfig" in await read_problem(source)
            kubeconfig.write_text(text)
            prometheus.status = 200
            await source.read()
    base = "/api/v1/namespaces/monitoring/services/prometheus:web/proxy"
    assert {path for path, _ in prometheus.asked} == {f"{base}/api/v1/query"}
    assert describe_use(PODS, reading, None)["pods"]["speech/tts"]["usedGib"] == 1.0


async def test_what_it_warned_of_is_told_with_the_answer() -> None:
    with answering_prometheus() as prometheus:
        metric = {HAMI.namespace: "speech", HAMI.pod: "tts"}
        result = [{"metric": metric, "value": [0, str(GIB)]}]
        prometheus.body = {"status": "success", "warnings": ["a store is down"]}
        prometheus.body["data"] = {"result": result}
        reading = await build_source(prometheus.url).read()
    assert describe_use(PODS, reading, None)["warnings"] == ["a store is down"]


# The command line.


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--prometheus", "prometheus:9090"), "is no address"),
        (("--prometheus-service", "prometheus"), "NAMESPACE/NAME:PORT"),
        (("--prometheus", "http://a", "--prometheus-service", "a/b:c"), "can't be combined"),
        (("--prometheus-config", "http.yaml"), "requires --prometheus"),
        (("--prometheus-label", "cluster=prod"), "requires --prometheus"),
        (("--prometheus", "http://a", "--prometheus-label", "prod"), "is no label"),
    ],
)
def test_options_that_name_no_prometheus_are_refused(
    arguments: tuple[str, ...], expected: str
) -> None:
    ended = run_command("ui", "--no-browser", *arguments)
    assert (ended.code, ended.out) == (Exit.USAGE, ""), ended
    assert expected in ended.err
