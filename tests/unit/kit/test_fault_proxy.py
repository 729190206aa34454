"""The proxy of the faults leaves nothing open behind it."""

import contextlib
import gc
import socket
import ssl
import threading
from datetime import UTC, datetime
from pathlib import Path

import yaml

from devcluster.cluster import Cluster
from devcluster.folder import ClusterFolder
from devcluster.waiting import wait_until
from tests.kit.faultproxy import FaultProxy
from tests.kit.foreigncerts import issue_foreign

CONTEXT = "kwok-devcluster-none"
CUT_OFF = b"no TLS"
PROXIES = 8
"""Before they were hung up on, one in three proxies left a socket open."""


def build_proxy(path: Path) -> FaultProxy:
    """In front of an API server that is not there."""
    folder = ClusterFolder("none", path)
    pki = folder.components / "pki"
    pki.mkdir(parents=True)
    identity = issue_foreign(("127.0.0.1",), datetime.now(UTC))
    for name, content in (
        ("ca.crt", identity.trust_pem),
        ("admin.crt", identity.certificate_pem),
        ("admin.key", identity.key_pem),
    ):
        (pki / name).write_bytes(content)
    server = {"server": "https://127.0.0.1:1", "certificate-authority": str(pki / "ca.crt")}
    kubeconfig = {
        "current-context": CONTEXT,
        "contexts": [{"name": CONTEXT}],
        "clusters": [{"name": CONTEXT, "cluster": server}],
    }
    folder.kubeconfig.write_text(yaml.safe_dump(kubeconfig))
    return FaultProxy(Cluster("none", path))


def knock(port: int, kept: list[socket.socket], ended: threading.Event) -> None:
    """Connect, again and again, until it has ended; shake hands as far as it goes."""
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    while not ended.is_set():
        try:
            connection = socket.create_connection(("127.0.0.1", port), timeout=1)
        except OSError:
            return
        kept.append(connection)
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = tls.wrap_bio(incoming, outgoing)
        with contextlib.suppress(OSError):
            while True:
                try:
                    client.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    connection.sendall(outgoing.read())
                    incoming.write(connection.recv(2**14) or CUT_OFF)
            connection.sendall(outgoing.read())


def stop_amid_clients(proxy: FaultProxy) -> None:
    kept: list[socket.socket] = []
    clients: list[threading.Thread] = []
    ended = threading.Event()
    try:
        with proxy:
            port = int(proxy.url.rpartition(":")[2])
            for _ in range(3):
                clients.append(threading.Thread(target=knock, args=(port, kept, ended)))
                clients[-1].start()
            wait_until(
                lambda: bool(kept),
                expectation="a connection",
                timeout_seconds=10,
                poll_seconds=0.01,
            )
    finally:
        ended.set()
        for client in clients:
            client.join()
        for connection in kept:
            connection.close()


def test_who_connects_while_it_stops_is_hung_up_on(tmp_path: Path) -> None:
    for number in range(PROXIES):
        stop_amid_clients(build_proxy(tmp_path / str(number)))
        # What is left open warns when it is collected, and a warning is a failure.
        gc.collect()
