"""A scheduler extender that takes every node, and notes what it is asked."""

import json
import ssl
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

Json = dict[str, Any]
PREFIX = "/gpushare-scheduler"


class PlainExtender:
    """While it is entered it listens on 127.0.0.1; `bind` does what it is asked to bind."""

    def __init__(self, bind: Callable[[Json], None], tls: ssl.SSLContext | None = None) -> None:
        self.calls: list[tuple[str, Json]] = []
        """The path of each call, and its arguments, their keys in lower case."""
        extender = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                arguments = {key.lower(): value for key, value in asked.items()}
                extender.calls.append((self.path, arguments))
                answer: Json = {"error": ""}
                if self.path == f"{PREFIX}/bind":
                    bind(arguments)
                else:
                    answer |= {key: arguments.get(key) for key in ("nodes", "nodenames")}
                body = json.dumps(answer).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                return None

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    @property
    def place(self) -> str:
        """Host and port."""
        return f"127.0.0.1:{self._server.server_port}"

    def asked(self, verb: str, pod: str) -> list[Json]:
        """The arguments of the calls about this pod."""
        found = (arguments for path, arguments in list(self.calls) if path == f"{PREFIX}/{verb}")
        return [each for each in found if _name_of(each) == pod]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _name_of(arguments: Json) -> str:
    name: str = arguments.get("podname") or arguments.get("pod", {}).get("metadata", {}).get("name")
    return name
