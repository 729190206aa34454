"""A credential plugin is run as kubectl runs it, and one of no use is told in a sentence."""

import asyncio
import json
import os
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.kit.cluster.kubeconfigs import (
    SERVER,
    build_answer,
    build_plugin_user,
    change_answer,
    count_runs,
    read_kept,
    write_plugin,
    write_printing_plugin,
)
from tests.kit.values.certificates import issue_foreign
from tests.kit.values.webhook_server import until
from tests.unit.auth.test_kubeconfig import expect_told, find_authorization, load

MINE = issue_foreign(("me",), datetime.now(UTC), kind="ec")
PAIR = {
    "clientCertificateData": MINE.certificate_pem.decode(),
    "clientKeyData": MINE.key_pem.decode(),
}


def end_in(**time: float) -> str:
    return (datetime.now(UTC) + timedelta(**time)).isoformat().replace("+00:00", "Z")


EXPIRED = build_answer(token="mine", expirationTimestamp=end_in(seconds=-1))


@pytest.mark.parametrize(
    ("version", "more"), [("v1", {}), ("v1beta1", {"interactiveMode": None, "env": None})]
)
async def test_what_the_plugin_prints_is_the_token(
    tmp_path: Path, version: str, more: dict[str, None]
) -> None:
    api_version = f"client.authentication.k8s.io/{version}"
    plugin = write_printing_plugin(tmp_path / "plugin", build_answer(api_version, token="mine"))
    user = build_plugin_user(plugin, apiVersion=api_version, **more)
    assert await find_authorization(tmp_path, user) == "Bearer mine"


async def test_it_gets_its_arguments_and_variables_beside_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROFILE", "ours")
    monkeypatch.setenv("REGION", "ours")
    answer = build_answer(token="$1-$2-$PROFILE-$REGION")
    plugin = write_plugin(tmp_path / "plugin", f"cat <<END\n{answer}\nEND")
    env = [{"name": "PROFILE", "value": "its"}]
    user = build_plugin_user(plugin, args=["get-token", "a"], env=env)
    assert await find_authorization(tmp_path, user) == "Bearer get-token-a-its-ours"


async def test_a_plugin_that_hangs_ends_with_the_call_that_waits_for_it(tmp_path: Path) -> None:
    path = tmp_path / "plugin"
    plugin = await load(tmp_path, build_plugin_user(write_printing_plugin(path, EXPIRED)))
    write_plugin(path, 'echo $$ > "$0.d/pid"; exec sleep 300')
    waiting = asyncio.ensure_future(plugin.authorize())
    await until(lambda: read_pid(path))
    process = read_pid(path)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await until(lambda: process not in os.listdir("/proc"))


def read_pid(plugin: Path) -> str:
    """The process that the plugin runs as; empty until it has written that."""
    written = Path(f"{plugin}.d/pid")
    return written.read_text().strip() if written.exists() else ""


async def test_a_command_with_a_slash_starts_from_the_kubeconfig(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    write_printing_plugin(tmp_path / "bin/plugin", build_answer(token="mine"))
    assert await find_authorization(tmp_path, build_plugin_user("bin/plugin")) == "Bearer mine"
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    assert await find_authorization(tmp_path, build_plugin_user("plugin")) == "Bearer mine"


async def test_it_is_told_of_the_cluster_where_the_user_says_so(tmp_path: Path) -> None:
    printing = f"echo '{build_answer(token='mine')}'"
    plugin = write_plugin(
        tmp_path / "plugin", f'printf %s "$KUBERNETES_EXEC_INFO" > "$0.d/info"\n{printing}'
    )
    (tmp_path / "ca.crt").write_bytes(MINE.authority.certificate_pem)
    config = {"audience": "gpus"}
    cluster: dict[str, Any] = {
        "tls-server-name": "api.example",
        "certificate-authority": "ca.crt",
        "extensions": [
            {"name": "another", "extension": {}},
            {"name": "client.authentication.k8s.io/exec", "extension": config},
        ],
    }
    await find_authorization(
        tmp_path, build_plugin_user(plugin, provideClusterInfo=False), **cluster
    )
    assert json.loads(read_kept(plugin, "info"))["spec"] == {"interactive": False}
    await find_authorization(
        tmp_path, build_plugin_user(plugin, provideClusterInfo=True), **cluster
    )
    told = json.loads(read_kept(plugin, "info"))["spec"]["cluster"]
    assert told.pop("certificate-authority-data").startswith("LS0tLS1CRUdJTi")
    assert told == {"server": SERVER, "tls-server-name": "api.example", "config": config}


async def test_it_is_asked_again_when_its_token_has_ended_and_not_before(tmp_path: Path) -> None:
    answer = build_answer(token="first", expirationTimestamp=end_in(minutes=10))
    command = write_printing_plugin(tmp_path / "plugin", answer)
    plugin = await load(tmp_path, build_plugin_user(command))
    change_answer(command, build_answer(token="second", expirationTimestamp=end_in(seconds=-1)))
    assert await plugin.authorize() == "Bearer first"
    plugin.forget()
    assert await plugin.authorize() == "Bearer second"
    change_answer(command, build_answer(token="third"))
    # All at once, as requests come.
    assert await asyncio.gather(*(plugin.authorize() for _ in range(5))) == ["Bearer third"] * 5
    assert count_runs(command) == 3


async def test_a_certificate_is_put_into_tls_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = []
    monkeypatch.setattr(
        ssl.SSLContext,
        "load_cert_chain",
        lambda self, certfile, *rest, **more: loaded.append(Path(certfile).read_text()),
    )
    answer = build_answer(expirationTimestamp=end_in(seconds=-1), **PAIR)
    plugin = await load(
        tmp_path, build_plugin_user(write_printing_plugin(tmp_path / "plugin", answer))
    )
    assert plugin.renews_certificate
    assert await plugin.authorize() is None
    assert loaded == [f"{PAIR['clientCertificateData']}\n{PAIR['clientKeyData']}"] * 2


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("echo no ticket >&2; exit 3", "failed: exit code 3: no ticket"),
        ("echo secret", "failed: unexpected"),
        ("echo '{}'", "field 'status' is missing"),
        (f"echo '{build_answer()}'", "neither a token nor a client certificate"),
        (
            f"echo '{build_answer(clientCertificateData='secret')}'",
            "field 'clientKeyData' is missing",
        ),
        (
            f"echo '{build_answer(clientCertificateData='secret', clientKeyData='secret')}'",
            "no PEM pair",
        ),
        (f"echo '{build_answer(token='secret✓')}'", "not one line of ASCII"),
        (
            f"echo '{build_answer(token='secret', expirationTimestamp='soon')}'",
            "Invalid isoformat string",
        ),
    ],
)
async def test_a_plugin_of_no_use_is_told_in_a_sentence(
    tmp_path: Path, script: str, says: str
) -> None:
    plugin = write_plugin(tmp_path / "plugin", script)
    await expect_told(tmp_path, build_plugin_user(plugin), str(plugin), says)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"command": "/nowhere/plugin"}, "No such file or directory: '/nowhere/plugin'"),
        ({"command": "/etc"}, "Permission denied: '/etc'"),
        ({"command": None}, "exec.command must be set"),
        ({"env": [{"value": "secret"}]}, "field 'name' is missing"),
    ],
)
async def test_a_plugin_that_can_not_be_run_is_told_in_a_sentence(
    tmp_path: Path, fields: dict[str, Any], says: str
) -> None:
    await expect_told(tmp_path, build_plugin_user("plugin", **fields), says)
