"""Whose program has connected: what Linux tells of the connections within a machine."""

import os
import socket
import sys

import pytest

from gpushare.cli.ui import peer as peers
from gpushare.cli.ui.peer import find_user, is_own

PEER, HERE = ("127.0.0.1", 0xAAC5), ("127.0.0.1", 0xBA74)
BROWSER = 1000
REST = "00000000:00000000 00:00000000 00000000"


def build_row(near: str, far: str, *, state: str = "01", user: int = BROWSER) -> str:
    return f"   0: {near} {far} {state} {REST}  {user}        0 4538452 2 00000000977a57bd 20 0"


@pytest.mark.parametrize("before", ["", "0000000000000000FFFF0000"], ids=["IPv4", "mapped"])
def test_the_user_stands_in_the_row_that_leads_from_there_to_here(before: str) -> None:
    peer, here = f"{before}0100007F:AAC5", f"{before}0100007F:BA74"
    table = [build_row(here, peer, user=1), build_row(peer, here)]
    assert find_user(table, PEER, HERE) == BROWSER


@pytest.mark.parametrize(
    "row",
    [
        build_row("0100007F:AAC6", "0100007F:BA74"),
        build_row("0100007F:AAC5", "0100007F:BA75"),
        build_row("0200007F:AAC5", "0100007F:BA74"),
        build_row("0100007F:AAC5", "0100007F:BA74", state="06", user=0),
    ],
    ids=["another port", "another server", "another address", "closed"],
)
def test_of_no_other_row_anything_is_believed(row: str) -> None:
    assert find_user([row], PEER, HERE) is None


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_a_connection_of_this_user_is_its_own_until_somebody_else_asks(
    family: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = socket.create_server(("127.0.0.1", 0))
    client = socket.socket(family)
    with server, client:
        mapped = "::ffff:" if family == socket.AF_INET6 else ""
        client.connect((f"{mapped}127.0.0.1", server.getsockname()[1]))
        accepted, peer = server.accept()
        with accepted:
            here = accepted.getsockname()
            assert is_own(peer, here)
            monkeypatch.setattr(peers, "ROOT", -1)
            monkeypatch.setattr(os, "getuid", lambda: BROWSER + os.geteuid())
            assert is_own(peer, here) is (sys.platform != "linux")


def test_a_connection_that_is_not_told_of_is_not_its_own() -> None:
    assert is_own(("127.0.0.1", 1), ("127.0.0.1", 2)) is (sys.platform != "linux")
