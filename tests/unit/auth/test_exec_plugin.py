"""A credential plugin is run as kubectl runs it, and told apart from one that is of no use."""

import asyncio
import json
import os
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gpushare.kube.auth.exec_plugin import RETRY, CredentialPlugin
from gpushare.kube.auth.kubeconfig import load_kubeconfig
from gpushare.kube.auth.kubeconfig_entries import Entry, parse_user
from gpushare.kube.errors import CredentialsError
from tests.kit.cluster.kubeconfigs import (
    PLUGIN_VERSION,
    SERVER,
    build_answer,
    build_plugin_user,
    change_answer,
    count_runs,
    read_kept,
    write_kubeconfig,
    write_plugin,
    write_printing_plugin,
)
from tests.kit.values.certificates import issue_foreign
from tests.kit.values.webhook_certificate import NOW, Clock
from tests.kit.values.webhook_server import until

MINE = issue_foreign(("me",), datetime.now(UTC), kind="ec")
PAIR = {
    "clientCertificateData": MINE.certificate_pem.decode(),
    "clientKeyData": MINE.key_pem.decode(),
}


def open_plugin(command: Path, clock: Clock, tls: ssl.SSLContext | None = None) -> CredentialPlugin:
    entry = Entry(command.parent / "config", "user", "me", build_plugin_user(command))
    plugin = parse_user(entry).exec
    assert plugin is not None
    return CredentialPlugin(entry, plugin, None, tls or ssl.create_default_context(), clock)


def format_time(time: datetime) -> str:
    return time.isoformat().replace("+00:00", "Z")


async def load(folder: Path, user: dict[str, Any], **cluster: object) -> str | None:
    path = write_kubeconfig(folder / "config", user, cluster=cluster)
    return await (await load_kubeconfig((path,))).authorize()


# How it is run.


@pytest.mark.parametrize(
    ("version", "more"), [("v1", {}), ("v1beta1", {"interactiveMode": None, "env": None})]
)
async def test_what_the_plugin_prints_is_the_token(
    tmp_path: Path, version: str, more: dict[str, None]
) -> None:
    api_version = f"client.authentication.k8s.io/{version}"
    answer = build_answer(api_version, token="mine", unknown="field")
    plugin = write_printing_plugin(tmp_path / "plugin", answer)
    user = build_plugin_user(plugin, apiVersion=api_version, **more)
    assert await load(tmp_path, user) == "Bearer mine"


async def test_it_gets_its_arguments_and_variables_beside_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROFILE", "ours")
    monkeypatch.setenv("REGION", "ours")
    answer = build_answer(token="$1-$2-$PROFILE-$REGION")
    plugin = write_plugin(tmp_path / "plugin", f"cat <<END\n{answer}\nEND")
    env = [{"name": "PROFILE", "value": "its"}]
    user = build_plugin_user(plugin, args=["get-token", "a"], env=env)
    assert await load(tmp_path, user) == "Bearer get-token-a-its-ours"


async def test_a_command_with_a_slash_starts_from_the_kubeconfig(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    write_printing_plugin(tmp_path / "bin/plugin", build_answer(token="mine"))
    assert await load(tmp_path, build_plugin_user("bin/plugin")) == "Bearer mine"
    with pytest.raises(CredentialsError, match="plugin is not there"):
        await load(tmp_path, build_plugin_user("plugin"))
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    assert await load(tmp_path, build_plugin_user("plugin")) == "Bearer mine"


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
    await load(tmp_path, build_plugin_user(plugin, provideClusterInfo=False), **cluster)
    assert json.loads(read_kept(plugin, "info"))["spec"] == {"interactive": False}
    await load(tmp_path, build_plugin_user(plugin, provideClusterInfo=True), **cluster)
    told = json.loads(read_kept(plugin, "info"))["spec"]["cluster"]
    assert told.pop("certificate-authority-data").startswith("LS0tLS1CRUdJTi")
    assert told == {"server": SERVER, "tls-server-name": "api.example", "config": config}


async def test_a_plugin_whose_caller_is_gone_is_ended(tmp_path: Path) -> None:
    plugin = write_plugin(tmp_path / "plugin", 'echo $$ > "$0.d/pid"; exec sleep 600')
    asked = asyncio.create_task(open_plugin(plugin, Clock()).authorize())
    await until(lambda: read_kept(plugin, "pid").endswith("\n"))
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    with pytest.raises(ProcessLookupError):
        os.kill(int(read_kept(plugin, "pid")), 0)


# When it is run again.


async def hold_token(folder: Path, clock: Clock) -> tuple[CredentialPlugin, Path]:
    """A plugin that was asked for its first token, which ends in ten minutes."""
    end = clock.now + timedelta(minutes=10)
    answer = build_answer(token="first", expirationTimestamp=format_time(end))
    command = write_printing_plugin(folder / "plugin", answer)
    plugin = open_plugin(command, clock)
    assert await plugin.authorize() == "Bearer first"
    return plugin, command


async def test_it_is_asked_again_when_its_token_has_ended_and_not_before(tmp_path: Path) -> None:
    clock = Clock()
    plugin, command = await hold_token(tmp_path, clock)
    change_answer(command, build_answer(token="second"))
    clock.now += timedelta(minutes=10, seconds=-1)
    assert await plugin.authorize() == "Bearer first"
    clock.now += timedelta(seconds=1)
    # All at once, as requests come.
    assert await asyncio.gather(*(plugin.authorize() for _ in range(5))) == ["Bearer second"] * 5
    assert count_runs(command) == 2


async def test_a_token_that_is_never_taken_has_the_plugin_run_now_and_then_only(
    tmp_path: Path,
) -> None:
    clock = Clock()
    plugin, command = await hold_token(tmp_path, clock)
    for _ in range(10):
        plugin.forget()
        await plugin.authorize()
    assert count_runs(command) == 1
    clock.now += RETRY
    plugin.forget()
    await plugin.authorize()
    assert count_runs(command) == 2


async def test_the_last_token_is_kept_while_the_plugin_gives_no_other(tmp_path: Path) -> None:
    clock = Clock()
    plugin, command = await hold_token(tmp_path, clock)
    change_answer(command, "")
    clock.now += timedelta(minutes=10)
    for _ in range(5):
        assert await plugin.authorize() == "Bearer first"
    assert count_runs(command) == 2
    change_answer(command, build_answer(token="second"))
    clock.now += RETRY
    assert await plugin.authorize() == "Bearer second"


async def test_a_certificate_is_put_into_tls_each_time(tmp_path: Path) -> None:
    loaded = []

    class Context(ssl.SSLContext):
        def load_cert_chain(self, certfile: Any, *rest: Any, **more: Any) -> None:
            loaded.append(Path(certfile).read_text())
            super().load_cert_chain(certfile, *rest, **more)

    clock = Clock()
    end = format_time(clock.now + timedelta(minutes=10))
    answer = build_answer(expirationTimestamp=end, **PAIR)
    command = write_printing_plugin(tmp_path / "plugin", answer)
    plugin = open_plugin(command, clock, Context(ssl.PROTOCOL_TLS_CLIENT))
    assert await plugin.authorize() is None
    assert plugin.gives_certificates
    other = issue_foreign(("me",), NOW, kind="rsa")
    status = {
        "clientCertificateData": other.certificate_pem.decode(),
        "clientKeyData": other.key_pem.decode(),
    }
    change_answer(command, build_answer(**status))
    clock.now += timedelta(minutes=10)
    await plugin.authorize()
    assert loaded == [MINE.certificate_pem.decode(), other.certificate_pem.decode()]


# What is wrong.


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("echo no ticket >&2; exit 3", "failed with exit code 3: no ticket"),
        (r"printf '\033[31mfirst\n\tsecond' >&2; exit 3", "exit code 3: [31mfirst second"),
        ("echo secret", "no ExecCredential: JSON is malformed"),
        ("echo '{}'", "missing required field `apiVersion`"),
        (
            f"echo '{build_answer('client.authentication.k8s.io/v1beta1', token='secret')}'",
            f"expected the kind ExecCredential of {PLUGIN_VERSION}",
        ),
        (f"echo '{build_answer()}'", "neither a token nor a client certificate"),
        (f"echo '{build_answer(clientKeyData='secret')}'", "a key without its certificate"),
        (
            f"echo '{build_answer(clientCertificateData='secret', clientKeyData='secret')}'",
            "gave nothing of use: [SSL]",
        ),
        (f"echo '{build_answer(token='secret✓')}'", "a token is one line of ASCII"),
        (
            f"echo '{build_answer(token='secret', expirationTimestamp='2026-01-01T00:00:00')}'",
            "`$.status.expirationTimestamp`",
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
        ({"command": ""}, "its credential plugin has no command"),
        ({"apiVersion": None}, "`$.exec.apiVersion`"),
        (
            {"apiVersion": "client.authentication.k8s.io/v1alpha1"},
            "speaks 'client.authentication.k8s.io/v1alpha1', expected",
        ),
        ({"interactiveMode": "Always"}, "asks a person, and there is no terminal"),
        ({"interactiveMode": "Sometimes"}, "interactiveMode is 'Sometimes', expected Never"),
        ({"env": [{"name": ""}]}, "a variable without a name"),
        ({"command": "/nowhere/plugin"}, "/nowhere/plugin is not there; install it"),
        ({"command": "/etc"}, "/etc can't be started: [Errno 13]"),
        (
            {"command": "nowhere", "installHint": "go to\n\x1b[1mhttps://plugins.example"},
            "nowhere is not there; install it (go to [1mhttps://plugins.example)",
        ),
    ],
)
async def test_a_plugin_that_can_not_be_run_is_told_in_a_sentence(
    tmp_path: Path, fields: dict[str, Any], says: str
) -> None:
    # The tests have no terminal.
    await expect_told(tmp_path, build_plugin_user("plugin", **fields), says)


async def expect_told(folder: Path, user: dict[str, Any], *says: str) -> None:
    """Loading ends in one sentence with these parts, and without a secret."""
    with pytest.raises(CredentialsError) as told:
        await load(folder, user)
    sentence = str(told.value)
    assert sentence.startswith(f"{folder}/config: user me: ")
    for part in says:
        assert part in sentence
    assert sentence.isprintable()
    assert "secret" not in sentence
