"""What a person is told: one sentence, whatever went wrong."""

from pathlib import Path

import pytest
import typer
from aiohttp import ClientHttpProxyError, RequestInfo
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from gpushare.cli.errors.failures import TRACEBACK, errors_as_sentences
from gpushare.cli.exit_codes import Exit
from gpushare.kube.errors import ApiError
from tests.kit.cluster.command_line import CommandResult, expect_error, run_command
from tests.kit.cluster.kubeconfigs import write_kubeconfig

PROXY = RequestInfo(URL("http://10.0.0.3:3128"), "CONNECT", CIMultiDictProxy(CIMultiDict()))


def refused(status: int) -> ApiError:
    return ApiError(status, b"{}", what="GET nodes")


DENIED = ApiError(
    403,
    b'{"message": "admission webhook \\"tickets\\" denied the request: a ticket is missing"}',
    what="PATCH pool",
)
MISTAKE, LINES = KeyError("name"), OSError(2, "No such\n  file", "a")
BY_PROXY = ClientHttpProxyError(PROXY, (), status=407)
FAILURES: dict[str, tuple[Exception, Exit, list[str]]] = {
    "internal error": (
        MISTAKE,
        Exit.FAILURE,
        ["please report it", "KeyError: 'name'", TRACEBACK],
    ),
    "a message of several lines": (LINES, Exit.FAILURE, ["a: No such file"]),
    "no credentials": (refused(401), Exit.NO_CREDENTIALS, []),
    # On ACK RAM alone gives no right.
    "no right": (refused(403), Exit.FORBIDDEN, ["Authorizations page"]),
    "too many calls": (refused(429), Exit.INCOMPLETE, []),
    "an error of the server": (refused(500), Exit.INCOMPLETE, []),
    "an invalid object": (refused(422), Exit.FAILURE, ["refuses", "422"]),
    "an admission webhook": (DENIED, Exit.FAILURE, ["a ticket is missing"]),
    "no answer": (TimeoutError(), Exit.NO_CLUSTER, []),
    "a proxy is no API server": (BY_PROXY, Exit.NO_CLUSTER, ["10.0.0.3:3128", "HTTPS_PROXY"]),
}


@pytest.mark.parametrize(("error", "code", "says"), FAILURES.values(), ids=FAILURES)
def test_what_went_wrong_is_one_sentence_and_has_its_code(
    error: Exception, code: Exit, says: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit) as ended, errors_as_sentences():
        raise error
    expect_error(CommandResult(ended.value.exit_code, *capsys.readouterr()), code, *says)


def test_where_a_mistake_of_the_program_is_can_be_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TRACEBACK, "1")
    with pytest.raises(KeyError), errors_as_sentences():
        raise KeyError("name")


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
