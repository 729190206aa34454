"""What a person is told: one sentence, whatever went wrong."""

from pathlib import Path

import pytest
import typer
from aiohttp import ClientHttpProxyError, RequestInfo
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from gpushare.cli.exits import Exit
from gpushare.cli.failures import TRACEBACK, told_in_a_sentence
from gpushare.kube.errors import ApiError
from tests.kit.cluster.command_line import expect_error, run_command
from tests.kit.cluster.kubeconfigs import write_kubeconfig


def tell(error: Exception) -> int:
    """The exit code with which it is told."""
    with pytest.raises(typer.Exit) as ended, told_in_a_sentence():
        raise error
    return ended.value.exit_code


def test_a_mistake_of_the_program_is_a_sentence_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert tell(KeyError("name")) == Exit.FAILURE
    assert capsys.readouterr().err == (
        "gpushare: a mistake of the program, please report it: KeyError: 'name' "
        "(GPUSHARE_TRACEBACK=1 shows where)\n"
    )


def test_where_it_is_can_be_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TRACEBACK, "1")
    with pytest.raises(KeyError), told_in_a_sentence():
        raise KeyError("name")


def test_a_message_of_several_lines_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    tell(OSError(2, "No such\n  file", "a"))
    assert capsys.readouterr().err == "gpushare: a: No such file\n"


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (401, Exit.NO_CREDENTIALS),
        (403, Exit.FORBIDDEN),
        (429, Exit.INCOMPLETE),
        (500, Exit.INCOMPLETE),
    ],
)
def test_refusals_of_the_api_server_have_their_codes(status: int, code: Exit) -> None:
    assert tell(ApiError(status, b"{}", what="GET nodes")) == code


def test_who_lacks_a_right_learns_that_ram_alone_gives_none_on_ack(
    capsys: pytest.CaptureFixture[str],
) -> None:
    tell(ApiError(403, b"{}", what="GET nodes"))
    assert "Authorizations page" in capsys.readouterr().err


def test_a_server_that_does_not_answer_is_none() -> None:
    assert tell(TimeoutError()) == Exit.NO_CLUSTER


def test_a_proxy_that_leads_nowhere_is_not_taken_for_the_api_server(
    capsys: pytest.CaptureFixture[str],
) -> None:
    request = RequestInfo(URL("http://10.0.0.3:3128"), "CONNECT", CIMultiDictProxy(CIMultiDict()))
    assert tell(ClientHttpProxyError(request, (), status=407)) == Exit.NO_CLUSTER
    told = capsys.readouterr().err
    assert "10.0.0.3:3128" in told
    assert "HTTPS_PROXY" in told


@pytest.mark.parametrize(
    ("proxy", "told"),
    [("127.0.0.1:1", "no proxy at 127.0.0.1:1"), ("http://me:secret@proxy.invalid:1", "proxy.inv")],
)
def test_a_proxy_that_is_not_there_is_named_without_its_password(
    tmp_path: Path, proxy: str, told: str
) -> None:
    cluster = {"server": "https://api.behind.example:6443"}
    path = write_kubeconfig(tmp_path / "config", {"token": "x"}, cluster=cluster)
    ended = run_command("inspect", kubeconfig=path, HTTPS_PROXY=proxy)
    expect_error(ended, Exit.NO_CLUSTER, told, "HTTPS_PROXY")
    assert "secret" not in ended.err
