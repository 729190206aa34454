"""A real Prometheus beside a cluster: what it reads, and what it answers."""

import contextlib
import json
import os
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import yaml

from devcluster.cluster import Cluster
from devcluster.ports import is_free
from devcluster.startup import CHART
from devcluster.toolchain import PROMETHEUS, ensure_binaries
from devcluster.waiting import wait_until
from tests.kit.values.manifests import Json

_READY_SECONDS = 90
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass(frozen=True)
class Sample:
    """One series of an answer."""

    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True)
class Prometheus:
    """One that reads every second, and knows the chart's rules."""

    url: str

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
    program = ensure_binaries(os.environ, PROMETHEUS) / "prometheus"
    own = next(port for port in reversed(cluster.ports.spare) if is_free(port))
    folder = cluster.logs.parent / "prometheus"
    folder.mkdir(exist_ok=True)
    ours = {
        "job_name": "gpushare",
        "honor_labels": True,
        "static_configs": [{"targets": [f"127.0.0.1:{port}" for port in ports]}],
    }
    settings = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(CHART / "files/rules.yaml")],
        "scrape_configs": [ours],
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(settings))
    command = [
        str(program),
        f"--config.file={folder / 'prometheus.yml'}",
        # Of its own: what one read that was killed would be there for another five minutes.
        f"--storage.tsdb.path={tempfile.mkdtemp(dir=folder)}",
        f"--web.listen-address=127.0.0.1:{own}",
        "--log.level=warn",
    ]
    process = cluster.spawn(command, log="prometheus.log", env=os.environ)
    started = Prometheus(f"http://127.0.0.1:{own}")
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


def _is_ready(started: Prometheus) -> bool:
    try:
        with _direct.open(f"{started.url}/-/ready", timeout=2):
            return True
    except OSError:
        return False
