"""Lets the API server reach addresses of this machine, where no pods are processes."""

import contextlib
import socket
import socketserver
import threading
from collections.abc import Iterator
from typing import Any

from devcluster.cluster import Cluster

_ACCEPTED = b"HTTP/1.1 200 OK\r\n\r\n"


class _Connection(socketserver.StreamRequestHandler):
    """Answers HTTP CONNECT as the socket does to which the API server sends calls of Services."""

    def handle(self) -> None:
        target = self.rfile.readline().decode().split(" ")[1]
        while self.rfile.readline().strip():
            pass
        host, _, port = target.rpartition(":")
        with socket.create_connection((host, int(port))) as inner:
            self.wfile.write(_ACCEPTED)
            back = threading.Thread(target=_copy, args=(inner, self.connection), daemon=True)
            back.start()
            _copy(self.connection, inner)
            back.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while chunk := source.recv(2**16):
            target.sendall(chunk)
        target.shutdown(socket.SHUT_WR)


class _Gateway(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    block_on_close = False


@contextlib.contextmanager
def reachable_service(cluster: Cluster, name: str, address: str, port: int) -> Iterator[None]:
    """A Service in the namespace default with this address and port, for a block.

    The API server connects to addresses of pods alone, so the address is also a pod's.
    """
    core = "/api/v1/namespaces/default"
    service = {"metadata": {"name": name}, "spec": {"ports": [{"port": port}]}}
    containers = [{"name": "main", "image": "none"}]
    spec = {"schedulerName": "nobody", "containers": containers}
    own = {"ip": address, "targetRef": {"kind": "Pod", "name": name, "namespace": "default"}}
    endpoints = {"addresses": [own], "ports": [{"port": port}]}
    objects: dict[str, Any] = {
        "services": service,
        "pods": {"metadata": {"name": name}, "spec": spec},
        "endpoints": {"metadata": {"name": name}, "subsets": [endpoints]},
    }
    with _Gateway(cluster.ports.services.replace("@", "\0", 1), _Connection) as gateway:
        threading.Thread(target=gateway.serve_forever, daemon=True).start()
        for kind, body in objects.items():
            cluster.api.call("POST", f"{core}/{kind}", body)
        status = {"status": {"podIP": address, "podIPs": [{"ip": address}]}}
        cluster.api.call("PATCH", f"{core}/pods/{name}/status", status)
        try:
            yield
        finally:
            # The endpoints go with their Service.
            for kind in ("pods", "services"):
                cluster.api.call("DELETE", f"{core}/{kind}/{name}")
            gateway.shutdown()
