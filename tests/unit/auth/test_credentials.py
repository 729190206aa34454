"""By what the API server knows us."""

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from aiohttp import ClientConnectorCertificateError, web
from aiohttp.test_utils import RawTestServer

import gpushare
from gpushare.certs.issue import issue_authority
from gpushare.kube.auth.credentials import TOKEN_SECONDS, read_service_account
from gpushare.kube.client import connect
from gpushare.kube.errors import CredentialsError
from gpushare.kube.session import load_credentials
from tests.kit.values.certificates import build_tls

ENVIRON = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}


@pytest.fixture
def account(tmp_path: Path) -> Path:
    """The folder that the kubelet mounts into a Pod."""
    (tmp_path / "ca.crt").write_bytes(issue_authority(datetime.now(UTC)).certificate_pem)
    (tmp_path / "token").write_text("first\n")
    return tmp_path


@pytest.mark.parametrize(
    ("address", "host"),
    [("10.0.0.1", "https://10.0.0.1:443"), ("fd00::1", "https://[fd00::1]:443")],
)
async def test_a_pod_is_known_by_its_service_account(
    account: Path, address: str, host: str
) -> None:
    environ = ENVIRON | {"KUBERNETES_SERVICE_HOST": address}
    credentials = await load_credentials(None, account, environ)
    assert credentials.host == host
    assert await credentials.authorize() == "Bearer first"
    assert credentials.tls is not None
    assert len(credentials.tls.get_ca_certs()) == 1


def test_what_reads_kubeconfigs_takes_no_memory_in_a_pod() -> None:
    script = "import sys, gpushare.webhook.manager; sys.exit('yaml' in sys.modules)"
    environ = {"PYTHONPATH": str(Path(gpushare.__path__[0]).parent)}
    assert subprocess.run([sys.executable, "-c", script], env=environ, check=False).returncode == 0


@pytest.mark.parametrize(("text", "sent"), [("second", "second"), ("", "first"), (None, "first")])
async def test_a_token_is_read_again_and_kept_while_there_is_no_other(
    account: Path, text: str | None, sent: str
) -> None:
    now = [0.0]
    credentials = read_service_account(account, ENVIRON, clock=lambda: now[0])
    (account / "token").unlink()
    if text is not None:
        (account / "token").write_text(text)
    assert await credentials.authorize() == "Bearer first"
    now[0] += TOKEN_SECONDS
    assert await credentials.authorize() == f"Bearer {sent}"


async def test_an_api_server_with_a_new_ca_is_known_once_the_kubelet_has_written_that(
    account: Path,
) -> None:
    server_tls, _, authority = build_tls()

    async def answer(request: web.BaseRequest) -> web.Response:
        return web.json_response({})

    server = RawTestServer(answer, scheme="https")
    await server.start_server(ssl=server_tls)
    async with server:
        environ = ENVIRON | {
            "KUBERNETES_SERVICE_HOST": "127.0.0.1",
            "KUBERNETES_SERVICE_PORT": str(server.port),
        }
        async with connect(await load_credentials(None, account, environ)) as api:
            for _ in range(2):
                with pytest.raises(ClientConnectorCertificateError):
                    await api.get("version")
            (account / "ca.crt").write_bytes(authority.certificate_pem)
            with pytest.raises(ClientConnectorCertificateError):
                await api.get("version")
            assert await api.get("version") == {}


@pytest.mark.parametrize("missing", ["token", "ca.crt"])
async def test_without_a_service_account_it_says_what_to_do(account: Path, missing: str) -> None:
    (account / missing).write_text("")
    with pytest.raises(CredentialsError, match="set GPUSHARE_KUBECONFIG to a kubeconfig"):
        await load_credentials(None, account, ENVIRON)


async def test_outside_a_cluster_it_says_what_to_do(account: Path) -> None:
    with pytest.raises(
        CredentialsError,
        match=f"cannot use the ServiceAccount in {account}: this is not a Pod",
    ):
        await load_credentials(None, account, {})
