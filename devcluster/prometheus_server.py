"""A real Prometheus beside a cluster: what it reads, and what it answers."""

import contextlib
import json
import os
import subprocess
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from devcluster.cluster import Cluster
from devcluster.ports import is_free
from devcluster.startup import CHART
from devcluster.toolchain import PROMETHEUS, ensure_binaries
from devcluster.waiting import wait_until

Json = dict[str, Any]

_READY_SECONDS = 90
_LOCAL = "127.0.0.1"
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass(frozen=True)
class Sample:
    """One series of an answer."""

    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True)
class Prometheus:
    """One that a test asks."""

    url: str
    port: int

    def query(self, expression: str) -> list[Sample]:
        """What it answers now; raises AssertionError for what it does not understand."""
        encoded = urllib.parse.urlencode({"query": expression})
        try:
            with _direct.open(f"{self.url}/api/v1/query?{encoded}", timeout=10) as answer:
                found: list[Json] = json.load(answer)["data"]["result"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{expression}: {error.read().decode()}") from error
        return [
            Sample(
                {key: value for key, value in series["metric"].items() if key not in _OF_TARGETS},
                float(series["value"][1]),
            )
            for series in found
        ]


_OF_TARGETS = ("instance", "job", "__name__")


@contextlib.contextmanager
def prometheus(cluster: Cluster, *ports: int) -> Iterator[Prometheus]:
    """One that reads `/metrics` at these ports of this machine, for a block."""
    ours = {
        "job_name": "gpushare",
        "honor_labels": True,
        "static_configs": [{"targets": [f"127.0.0.1:{port}" for port in ports]}],
    }
    settings = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [
            str(CHART / "files/rules.yaml"),
            str(CHART / "files/rules-webhook.yaml"),
            str(_write_quick_rules(_make_folder(cluster))),
        ],
        "scrape_configs": [ours],
    }
    with _started(cluster, settings) as started:
        yield started


@contextlib.contextmanager
def recorded_prometheus(
    cluster: Cluster, recording: str, *options: str, address: str = _LOCAL
) -> Iterator[Prometheus]:
    """One that reads nothing and remembers a recording in OpenMetrics' format, for a block. It
    listens at `address`, and is asked at that of the loopback."""
    folder = Path(tempfile.mkdtemp(dir=_make_folder(cluster)))
    (folder / "recording").write_text(recording)
    promtool = str(ensure_binaries(os.environ, PROMETHEUS) / "promtool")
    command = [promtool, "tsdb", "create-blocks-from", "openmetrics", "recording", "data"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    with _started(cluster, {}, *options, storage=folder / "data", address=address) as started:
        yield started


@contextlib.contextmanager
def _started(
    cluster: Cluster,
    settings: Json,
    *options: str,
    storage: Path | None = None,
    address: str = _LOCAL,
) -> Iterator[Prometheus]:
    program = ensure_binaries(os.environ, PROMETHEUS) / "prometheus"
    own = next(port for port in reversed(cluster.ports.spare) if is_free(port))
    folder = _make_folder(cluster)
    file = folder / f"prometheus-{own}.yml"
    file.write_text(yaml.safe_dump(settings))
    command = [
        str(program),
        f"--config.file={file}",
        # Of its own: what one read that was killed would be there for another five minutes.
        f"--storage.tsdb.path={storage or tempfile.mkdtemp(dir=folder)}",
        f"--web.listen-address={address}:{own}",
        "--log.level=warn",
        *options,
    ]
    process = cluster.spawn(command, log="prometheus.log", env=os.environ)
    started = Prometheus(f"http://{_LOCAL}:{own}", own)
    try:
        wait_until(
            lambda: _is_ready(started),
            expectation="Prometheus answers",
            timeout_seconds=_READY_SECONDS,
            advice=lambda: (cluster.logs / "prometheus.log").read_text()[-2000:],
        )
        yield started
    finally:
        process.kill()
        process.wait()


def _make_folder(cluster: Cluster) -> Path:
    folder = cluster.logs.parent / "prometheus"
    folder.mkdir(exist_ok=True)
    return folder


def _write_quick_rules(folder: Path) -> Path:
    """Write the hourly rules with a minute for an hour and a second for a minute."""
    text = (CHART / "files/rules-usage.yaml").read_text()
    file = folder / "rules-usage.yaml"
    file.write_text(text.replace("[1h:1m]", "[1m:1s]").replace("interval: 1h", "interval: 1s"))
    return file


def _is_ready(started: Prometheus) -> bool:
    try:
        with _direct.open(f"{started.url}/-/ready", timeout=2):
            return True
    except OSError:
        return False
