"""Which kubeconfig, and what of it is missing."""

from pathlib import Path

import pytest
import yaml

from gpushare.kube.auth.contexts import find_context, find_kubeconfigs
from gpushare.kube.auth.own_credentials import load_own_credentials
from gpushare.kube.errors import CredentialsError

WHOLE = {
    "current-context": "here",
    "clusters": [{"name": "c", "cluster": {"server": "https://10.0.0.2:6443"}}],
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


def test_an_option_goes_before_files_of_the_variable_and_those_before_the_default(
    home: Path,
) -> None:
    default = write(home / ".kube/config", WHOLE)
    named, asked = write(home / "named", WHOLE), write(home / "asked", WHOLE)
    environ = {"KUBECONFIG": str(named)}
    assert find_kubeconfigs(asked, environ) == (asked,)
    assert find_kubeconfigs(None, environ) == (named,)
    assert find_kubeconfigs(None, {"KUBECONFIG": ""}) == (default,)
    several = {"KUBECONFIG": f"{named}:{home}/none::{asked}"}
    assert find_kubeconfigs(None, several) == (named, asked)


@pytest.mark.usefixtures("home")
def test_a_file_that_is_named_and_missing_is_said_so() -> None:
    assert find_kubeconfigs(None, {}) == ()
    with pytest.raises(CredentialsError, match="--kubeconfig names nowhere, which does not exist"):
        find_kubeconfigs(Path("nowhere"), {})
    with pytest.raises(CredentialsError, match="KUBECONFIG names nowhere, which does not exist"):
        find_kubeconfigs(None, {"KUBECONFIG": "nowhere"})


def test_the_current_context_unless_another_is_asked_for(tmp_path: Path) -> None:
    path = write(tmp_path / "config", WHOLE)
    here, there = find_context([path], None), find_context([path], "there")
    assert (here.name, here.namespace) == ("here", "vision")
    assert (there.name, there.namespace) == ("there", "default")


def test_of_several_files_the_first_that_says_it_is_believed(tmp_path: Path) -> None:
    other = {**WHOLE, "current-context": "there", "contexts": []}
    a = write(tmp_path / "a", {"contexts": [], "current-context": ""})
    b, c = write(tmp_path / "b", other), write(tmp_path / "c", WHOLE)
    empty = write(tmp_path / "empty", "")
    assert find_context([a, empty, b, c], None).name == "there"
    assert find_context([a, c, b], None).name == "here"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"current-context": ""}, "has no current-context; name one with --context (here, there)"),
        ({"current-context": "hree"}, "has no context hree; did you mean here?"),
        ({"contexts": [{"name": "here"}]}, "context here is empty"),
        ({"contexts": "here"}, "its contexts are no list with names"),
        ({"clusters": []}, "context here names the cluster 'c', which is not in its clusters"),
        ({"users": None}, "context here names the user 'me', which is not in its users"),
        ({"contexts": [{"name": "here", "context": {"cluster": ["c"]}}]}, "`$.cluster`"),
    ],
)
def test_half_a_kubeconfig_is_told_by_what_is_missing(
    tmp_path: Path, change: dict[str, object], says: str
) -> None:
    path = write(tmp_path / "config", {**WHOLE, **change})
    with pytest.raises(CredentialsError) as told:
        find_context([path], None)
    assert str(told.value).startswith(str(path))
    assert says in str(told.value)


@pytest.mark.parametrize("content", ["a: [", "- here", "nonsense", "\0"])
def test_a_file_that_is_no_kubeconfig_is_said_so(tmp_path: Path, content: str) -> None:
    path = write(tmp_path / "config", content)
    with pytest.raises(CredentialsError, match=f"{path} is no kubeconfig"):
        find_context([path], None)
    with pytest.raises(CredentialsError, match="can't be read"):
        find_context([tmp_path], None)


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
    with pytest.raises(CredentialsError, match=f"no credentials from the ServiceAccount in {home}"):
        await load_own_credentials(None, None, environ, home)
    with pytest.raises(CredentialsError, match="there is no kubeconfig"):
        await load_own_credentials(None, "here", environ, home)
