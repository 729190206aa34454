"""What a kubeconfig says is what is sent, also where `kubernetes` reads it unlike kubectl."""

import asyncio
import base64
import contextlib
import json
import ssl
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import RawTestServer
from cryptography.hazmat.primitives import serialization
from yarl import URL

from gpushare.certs.issue import issue_authority, issue_identity
from gpushare.kube.auth.credentials import Credentials
from gpushare.kube.auth.kubeconfig import import_reader
from gpushare.kube.client import connect
from gpushare.kube.errors import CredentialsError
from gpushare.kube.session import load_credentials
from tests.kit.cluster.command_line import start_python
from tests.kit.cluster.kubeconfigs import build_plugin_user, write_kubeconfig
from tests.kit.values.certificates import HOST, build_tls

TOKEN = {"token": "mine"}
NOW = datetime.now(UTC)
AUTHORITY = issue_authority(NOW)
MINE = issue_identity(AUTHORITY, ("me",), NOW)
OTHERS = issue_identity(AUTHORITY, ("other",), NOW)


def encode(text: bytes) -> str:
    return base64.b64encode(text).decode()


async def load(folder: Path, user: object, **cluster: object) -> Credentials:
    """By a kubeconfig of this user, and of what else is said of the cluster."""
    path = write_kubeconfig(folder / "config", user, cluster=cluster)
    return await load_credentials(path, folder, {})


async def find_authorization(folder: Path, user: object, **cluster: object) -> str | None:
    return await (await load(folder, user, **cluster)).authorize()


async def expect_told(folder: Path, user: object, *says: str, **cluster: object) -> None:
    """Loading ends in one sentence with these parts, and without a secret."""
    with pytest.raises(CredentialsError) as told:
        await load(folder, user, **cluster)
    sentence = str(told.value)
    assert sentence.startswith(f"{folder}/config: context here")
    for part in says:
        assert part in sentence
    assert "\n" not in sentence
    assert "secret" not in sentence


@pytest.mark.parametrize(
    ("user", "sent"),
    [
        (TOKEN, "Bearer mine"),
        ({"username": "me", "password": "pw"}, "Basic bWU6cHc="),
        ({"client-certificate-data": encode(MINE.certificate_pem)}, None),
    ],
)
async def test_a_user_is_known_by_what_the_entry_says(
    tmp_path: Path, user: Mapping[str, str], sent: str | None
) -> None:
    key = {"client-key-data": encode(MINE.key_pem)}
    assert await find_authorization(tmp_path, {**user, **key, "exec": None}) == sent


async def test_a_token_goes_before_a_plugin_which_is_not_run(tmp_path: Path) -> None:
    user = TOKEN | build_plugin_user("/nowhere/plugin")
    assert await find_authorization(tmp_path, user) == "Bearer mine"


async def test_a_token_file_is_found_beside_the_kubeconfig_and_read_again(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("first\n")
    user = {"token": "older", "tokenFile": "token"}
    credentials = await load(tmp_path, user)
    assert await credentials.authorize() == "Bearer first"
    (tmp_path / "token").write_text("second")
    credentials.forget()
    assert await credentials.authorize() == "Bearer second"


async def test_nothing_of_a_user_goes_over_plain_http(tmp_path: Path) -> None:
    cluster = {"server": "http://127.0.0.1:8001", "proxy-url": "http://10.0.0.3:3128"}
    for user in (TOKEN, {}):
        credentials = await load(tmp_path, user, **cluster)
        assert await credentials.authorize() is None
        assert credentials.host == cluster["server"]
        assert credentials.proxy == cluster["proxy-url"]


def build_id_token(seconds: float) -> str:
    """One of OpenID Connect that ends so long from now."""
    claims = json.dumps({"exp": datetime.now(UTC).timestamp() + seconds}).encode()
    return f"e30.{base64.urlsafe_b64encode(claims).decode().rstrip('=')}.e30"


async def test_a_token_of_openid_connect_is_taken_and_not_renewed(tmp_path: Path) -> None:
    # `kubernetes` would send the secret and the refresh token without verifying to whom.
    config = {
        "idp-issuer-url": "https://127.0.0.1:1",
        "client-id": "me",
        "client-secret": "secret",
        "refresh-token": "secret",
        "id-token": build_id_token(3600),
    }
    user = {"auth-provider": {"name": "oidc", "config": config}}
    assert await find_authorization(tmp_path, user) == f"Bearer {config['id-token']}"
    config["id-token"] = build_id_token(0)
    await expect_told(tmp_path, user, "No valid id-token")


async def test_no_private_key_stays_in_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    assert (await load(tmp_path, PAIR)).tls is not None
    assert list((tmp_path / "tmp").iterdir()) == []


def test_what_reads_kubeconfigs_is_not_imported_before_one_is_read() -> None:
    script = (
        "import sys, gpushare.kube.session, gpushare.kube.auth.kubeconfig; "
        "sys.exit('kubernetes' in sys.modules)"
    )
    assert start_python("-c", script).code == 0


@contextlib.asynccontextmanager
async def serving(tls: ssl.SSLContext) -> AsyncIterator[str]:
    """A server that answers with the headers that it got."""

    async def answer(request: web.BaseRequest) -> web.Response:
        return web.json_response({"headers": list(request.headers.items())})

    server = RawTestServer(answer, scheme="https")
    await server.start_server(ssl=tls)
    yield str(server.make_url("/"))
    await server.close()


async def ask(folder: Path, user: object, **cluster: object) -> dict[str, Any]:
    async with connect(await load(folder, user, **cluster)) as api:
        return await api.get("version")


@pytest.mark.parametrize(
    ("fields", "is_taken"),
    [
        ({"certificate-authority": "ca.crt"}, True),
        ({}, False),
        ({"certificate-authority-data": encode(AUTHORITY.certificate_pem)}, False),
        ({"certificate-authority": "ca.crt", "tls-server-name": HOST}, True),
        ({"certificate-authority": "ca.crt", "tls-server-name": "another.host"}, False),
    ],
    ids=["known", "unknown", "another", "known by name", "another name"],
)
async def test_a_server_is_told_who_asks_only_where_it_is_known(
    tmp_path: Path, fields: Mapping[str, str], is_taken: bool
) -> None:
    tls, _, authority = build_tls()
    (tmp_path / "ca.crt").write_bytes(authority.certificate_pem)
    async with serving(tls) as url:
        asking = ask(tmp_path, TOKEN, server=url, **fields)
        if is_taken:
            assert ["Authorization", "Bearer mine"] in (await asking)["headers"]
        else:
            with pytest.raises(aiohttp.ClientConnectorCertificateError):
                await asking


@contextlib.asynccontextmanager
async def tunnelling(url: str) -> AsyncIterator[str]:
    """A proxy that tunnels to this server, whatever it is asked for."""

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer):
            while data := await reader.read(2**16):
                writer.write(data)

    async def tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"CONNECT ")
        far = await asyncio.open_connection(URL(url).host, URL(url).port)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            await asyncio.gather(copy(reader, far[1]), copy(far[0], writer))

    server = await asyncio.start_server(tunnel, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_a_server_is_known_by_its_tls_name_behind_a_proxy_too(tmp_path: Path) -> None:
    tls, _, authority = build_tls()
    trusted = {"certificate-authority-data": encode(authority.certificate_pem)}
    async with serving(tls) as url, tunnelling(url) as proxy:
        cluster = trusted | {"server": "https://api.behind.example", "proxy-url": proxy}
        told = await ask(tmp_path, TOKEN, **cluster, **{"tls-server-name": HOST})
        assert ["Authorization", "Bearer mine"] in told["headers"]
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await ask(tmp_path, TOKEN, **cluster)


async def test_requests_are_made_as_somebody_else_where_the_entry_says_so(tmp_path: Path) -> None:
    tls, _, _ = build_tls()
    user = TOKEN | {
        "as": "somebody",
        "as-uid": "42",
        "as-groups": ["readers", "team:vision"],
        "as-user-extra": {"acme.com/scope": ["one", "two"]},
    }
    async with serving(tls) as url:
        cluster = {"server": url, "insecure-skip-tls-verify": True}
        told = await ask(tmp_path, user, **cluster)
    assert [tuple(each) for each in told["headers"] if each[0].startswith("Impersonate")] == [
        ("Impersonate-User", "somebody"),
        ("Impersonate-Uid", "42"),
        ("Impersonate-Group", "readers"),
        ("Impersonate-Group", "team:vision"),
        ("Impersonate-Extra-acme.com%2Fscope", "one"),
        ("Impersonate-Extra-acme.com%2Fscope", "two"),
    ]


@pytest.mark.parametrize(
    ("cluster", "says"),
    [
        ({"server": None}, "server must begin with https://HOST or http://HOST"),
        ({"server": "10.0.0.2"}, "server must begin with"),
        ({"server": "https://[::1"}, "context here: "),
        ({"certificate-authority": "none.crt"}, "none.crt"),
        ({"certificate-authority": "/dev/null"}, "the certificate authority is no PEM certificate"),
        ({"certificate-authority-data": "4pyT"}, "the certificate authority is no PEM"),
        ({"certificate-authority-data": "a"}, "certificate-authority-data is not base64"),
        ({"certificate-authority": "ca.crt", "insecure-skip-tls-verify": True}, "beside"),
        ({"server": "https://.."}, "invalid host name"),
        ({"server": "https://127.0.0.1:1 "}, "context here: "),
        ({"proxy-url": "socks5://me:secret@10.0.0.3"}, "proxy-url must be http://HOST:PORT"),
        ({"proxy-url": "http://me:secret@:x"}, "proxy-url must be http://HOST:PORT"),
        ({"proxy-url": "http://me:secret@pro..xy:1"}, "proxy-url must be http://HOST:PORT"),
    ],
)
async def test_a_bad_cluster_is_told_in_a_sentence(
    tmp_path: Path, cluster: Mapping[str, Any], says: str
) -> None:
    await expect_told(tmp_path, TOKEN, says, **cluster)


PAIR = {
    # In lines, as `base64` writes it.
    "client-certificate-data": base64.encodebytes(MINE.certificate_pem).decode(),
    "client-key-data": encode(MINE.key_pem),
}


@pytest.mark.parametrize(
    ("user", "says"),
    [
        (None, "no token, client certificate or credential plugin"),
        ({"token": ""}, "no token, client certificate"),
        ({"username": "me"}, "no token, client certificate"),
        ({"token": "secret\nsecret"}, "does not fit in a header"),
        ({"tokenFile": "none"}, "No such file"),
        ({"tokenFile": "empty"}, "is empty"),
        ({"auth-provider": {"name": "gcp"}}, "auth-provider 'gcp' is not supported"),
        ({**PAIR, "client-key-data": None}, "no PEM pair"),
        ({**PAIR, "client-key-data": "secret"}, "client-key-data is not base64"),
        ({"client-certificate": "none.crt", "client-key-data": "eA=="}, "none.crt"),
        ({**PAIR, "client-key-data": encode(OTHERS.key_pem)}, "no PEM pair"),
        ({"token": "secret", "as": "a\nb"}, "does not fit in a header"),
        ({"exec": {"command": "/bin/true"}}, "exec.apiVersion must be set"),
    ],
)
async def test_a_bad_user_is_told_in_a_sentence(tmp_path: Path, user: object, says: str) -> None:
    (tmp_path / "empty").touch()
    await expect_told(tmp_path, user, says)


async def test_a_key_with_a_password_is_refused_rather_than_asked_for(tmp_path: Path) -> None:
    key = serialization.load_pem_private_key(MINE.key_pem, None)
    locked = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )
    user = {**PAIR, "client-key-data": encode(locked)}
    await expect_told(tmp_path, user, "PEM")


async def test_without_the_package_that_reads_it_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "kubernetes", None)
    import_reader.cache_clear()
    await expect_told(tmp_path, TOKEN, "the Python package kubernetes")
