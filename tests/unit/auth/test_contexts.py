"""Which kubeconfig, and what of it is missing."""

import os
import threading
from pathlib import Path

import pytest
import yaml

from gpushare.kube.auth.kubeconfig import Context, find_context, load_own_credentials
from gpushare.kube.errors import CredentialsError
from tests.kit.cluster.kubeconfigs import SERVER

WHOLE = {
    "current-context": "here",
    "clusters": [{"name": "c", "cluster": {"server": SERVER}}],
    "contexts": [
        {"name": "here", "context": {"cluster": "c", "user": "me", "namespace": "vision"}},
        {"name": "there", "context": {"cluster": "c", "user": "me"}},
    ],
    "users": [{"name": "me", "user": {"token": "mine"}}],
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def write(path: Path, content: object) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


def find(*paths: Path, asked: str | None = None) -> Context:
    """In these files, as KUBECONFIG lists them."""
    found = find_context(None, asked, {"KUBECONFIG": ":".join(map(str, paths))})
    assert found is not None
    return found


def test_an_option_goes_before_files_of_the_variable_and_those_before_the_default(
    home: Path,
) -> None:
    write(home / ".kube/config", WHOLE)
    named = write(home / "named", {**WHOLE, "current-context": "there"})
    asked = write(home / "asked", {**WHOLE, "contexts": [], "current-context": "none"})
    with pytest.raises(CredentialsError, match=f"{asked} has no context none"):
        find_context(asked, None, {"KUBECONFIG": str(named)})
    assert find(Path("~/none"), named, asked).name == "there"
    for environ in ({}, {"KUBECONFIG": ""}):
        default = find_context(None, None, environ)
        assert default is not None
        assert default.name == "here"


@pytest.mark.usefixtures("home")
def test_a_file_that_is_named_and_missing_is_said_so() -> None:
    assert find_context(None, None, {}) is None
    with pytest.raises(CredentialsError, match="--kubeconfig names nowhere, which does not exist"):
        find_context(Path("nowhere"), None, {})
    with pytest.raises(CredentialsError, match="KUBECONFIG names nowhere, which does not exist"):
        find_context(None, None, {"KUBECONFIG": "nowhere"})


def test_the_current_context_unless_another_is_asked_for(tmp_path: Path) -> None:
    path = write(tmp_path / "config", WHOLE)
    here, there = find(path), find(path, asked="there")
    assert (here.name, here.namespace) == ("here", "vision")
    assert (there.name, there.namespace) == ("there", "default")


def test_of_several_files_the_first_that_says_it_is_believed(tmp_path: Path) -> None:
    other = {**WHOLE, "current-context": "there", "contexts": []}
    a = write(tmp_path / "a", {"contexts": [], "current-context": ""})
    b, c = write(tmp_path / "b", other), write(tmp_path / "c", WHOLE)
    empty = write(tmp_path / "empty", "")
    assert find(a, empty, b, c).name == "there"
    assert find(a, c, b).name == "here"


def test_entries_come_from_several_files_with_paths_from_the_folder_of_each(tmp_path: Path) -> None:
    cluster = {"name": "c", "cluster": {"server": SERVER, "certificate-authority": "../ca"}}
    user = {"client-certificate": "me.crt", "client-key": "/keys/me", "exec": {"command": "./ask"}}
    (tmp_path / "b").mkdir()
    a = write(tmp_path / "a/config", {**WHOLE, "clusters": [cluster], "users": None})
    b = write(tmp_path / "b/config", {**WHOLE, "users": [{"name": "me", "user": user}]})
    found = find(a, b)
    assert found.cluster["certificate-authority"] == f"{tmp_path}/a/../ca"
    assert found.user["client-certificate"] == f"{tmp_path}/b/me.crt"
    assert found.user["client-key"] == "/keys/me"
    assert found.user["exec"]["command"] == f"{tmp_path}/b/ask"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            {"current-context": ""},
            "has no current-context. Set --context to one that it has: here, there",
        ),
        ({"current-context": "hree"}, "has no context hree (did you mean here?)"),
        ({"contexts": [{"name": "here"}]}, "context here names the cluster None"),
        ({"contexts": "here"}, "is not a kubeconfig"),
        ({"clusters": []}, "context here names the cluster 'c', which is not defined"),
        ({"users": None}, "context here names the user 'me', which is not defined"),
        ({"users": [{"user": {"token": "secret"}}]}, "is not a kubeconfig"),
        ({"contexts": [{"name": "here", "context": {"cluster": ["c"]}}]}, "contexts.0.context"),
    ],
)
def test_half_a_kubeconfig_is_told_by_what_is_missing(
    tmp_path: Path, change: dict[str, object], says: str
) -> None:
    path = write(tmp_path / "config", {**WHOLE, **change})
    with pytest.raises(CredentialsError) as told:
        find(path)
    assert str(told.value).startswith(str(path))
    assert says in str(told.value)
    assert "secret" not in str(told.value)


@pytest.mark.parametrize(
    ("kind", "fields", "place"),
    [
        # As text it would be true.
        ("cluster", "insecure-skip-tls-verify: 'false'", "clusters.0.cluster.insecure-skip-tls"),
        ("user", "as-groups: system:masters", "users.0.user.as-groups"),
        ("user", "as-user-extra: {a: bc}", "users.0.user.as-user-extra.a"),
        ("user", "token: yes", "users.0.user.token"),
        ("user", "token: &secret [*secret]", "users.0.user.token"),
        ("user", "exec: {env: secret}", "users.0.user.exec.env"),
    ],
)
def test_a_field_of_another_type_is_refused_as_kubectl_refuses_it(
    tmp_path: Path, kind: str, fields: str, place: str
) -> None:
    path = write(tmp_path / "config", f"{kind}s: [{{name: secret, {kind}: {{{fields}}}}}]")
    with pytest.raises(CredentialsError, match=f"not a kubeconfig: {place}") as told:
        find(path)
    assert "secret" not in str(told.value)


def test_a_pipe_is_read_once(tmp_path: Path) -> None:
    os.mkfifo(path := tmp_path / "config")
    text = yaml.safe_dump(WHOLE)
    writer = threading.Thread(target=lambda: path.write_text(text))
    writer.start()
    assert [find_context(path, None, {}) for _ in range(2)] == [find_context(path, None, {})] * 2
    writer.join()


@pytest.mark.parametrize("value", ["~nobody-is-called-so/config", "nowhere"])
def test_a_home_that_is_unknown_is_a_missing_file(value: str) -> None:
    with pytest.raises(CredentialsError, match="does not exist"):
        find_context(None, None, {"KUBECONFIG": value})


@pytest.mark.parametrize(
    "content",
    [
        *("a: [", "- here", "nonsense", "\0", "users: *secret"),
        *("a: 0x_", "a: " + "1" * 5000, "a: " + "[" * 3000),
    ],
    ids=lambda content: repr(content[:12]),
)
def test_a_file_that_is_no_kubeconfig_is_said_so(tmp_path: Path, content: str) -> None:
    path = write(tmp_path / "config", content)
    with pytest.raises(CredentialsError, match=f"{path} is not a kubeconfig"):
        find(path)
    with pytest.raises(CredentialsError, match="cannot read"):
        find(tmp_path)


async def test_the_context_that_is_asked_for_gives_the_credentials(home: Path) -> None:
    stranger = {"name": "stranger", "user": {"token": "its"}}
    far = {"name": "far", "context": {"cluster": "c", "user": "stranger"}}
    users, contexts = [*WHOLE["users"], stranger], [*WHOLE["contexts"], far]
    path = write(home / "config", {**WHOLE, "users": users, "contexts": contexts})
    for context, token in ((None, "mine"), ("far", "its")):
        credentials = await load_own_credentials(path, context, {})
        assert await credentials.authorize() == f"Bearer {token}"


async def test_a_pod_is_known_by_its_service_account_unless_it_asks_for_a_context(
    home: Path,
) -> None:
    environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    with pytest.raises(CredentialsError, match=f"cannot use the ServiceAccount in {home}"):
        await load_own_credentials(None, None, environ, home)
    with pytest.raises(CredentialsError, match="no kubeconfig found"):
        await load_own_credentials(None, "here", environ, home)
