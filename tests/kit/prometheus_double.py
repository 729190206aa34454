"""A server that answers as Prometheus does, for tests of who asks it."""

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from gpushare.analysis.usage.exporters import Exporter
from gpushare.analysis.usage.queries import build_selector, build_used

Sample = tuple[Mapping[str, str], float]


@dataclass
class PrometheusDouble:
    """What it answers, and what it was asked."""

    url: str = ""
    status: int = 200
    body: Any = None
    """Answered to every call, if set; otherwise what `report` was told."""
    may_answer: threading.Event = field(default_factory=threading.Event)
    """Until it is set calls wait; it is at the beginning."""
    asked: list[tuple[str, Mapping[str, str]]] = field(default_factory=list)
    """Path and parameters of each call."""
    _samples: dict[str, Sequence[Sample]] = field(default_factory=dict)

    def report(self, exporter: Exporter, used: Mapping[str, float]) -> None:
        """Report the use of pods, by namespace and name, in the exporter's unit from now on."""
        samples = []
        for pod, value in used.items():
            namespace, _, name = pod.partition("/")
            samples.append(({exporter.namespace: namespace, exporter.pod: name}, value))
        self._samples[build_used(exporter, build_selector(exporter, {}))] = samples

    def __post_init__(self) -> None:
        self.may_answer.set()

    def answer(self, path: str, params: Mapping[str, str]) -> Any:
        self.asked.append((path, params))
        self.may_answer.wait()
        if self.body is not None:
            return self.body
        samples = self._samples.get(params.get("query", ""), ())
        if path.endswith("/query_range"):
            kind, key = "matrix", "values"
        else:
            kind, key = "vector", "value"
        points = [[float(params.get("start", 0)), str(value)] for _, value in samples]
        result = [
            {"metric": labels, key: [point] if kind == "matrix" else point}
            for (labels, _), point in zip(samples, points, strict=True)
        ]
        return {"status": "success", "data": {"resultType": kind, "result": result}}


@contextmanager
def answering_prometheus() -> Iterator[PrometheusDouble]:
    """Serve one on a port of this machine within the block; it has no series yet."""
    double = PrometheusDouble()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            address = urlsplit(self.path)
            params = {name: values[0] for name, values in parse_qs(address.query).items()}
            body = double.answer(address.path, params)
            self.send_response(double.status)
            self.end_headers()
            text = body if isinstance(body, str) else json.dumps(body)
            self.wfile.write(text.encode())

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        double.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield double
        finally:
            double.may_answer.set()
            server.shutdown()
            thread.join()
