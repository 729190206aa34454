"""Which proxy the environment names for a server: each case as Go's http.ProxyFromEnvironment."""

import pytest

from gpushare.kube.auth.proxies import find_proxy
from gpushare.kube.errors import CredentialsError

PROXY = "http://10.0.0.3:3128"


def is_excepted(server: str, no_proxy: str) -> bool:
    return find_proxy(server, {"HTTPS_PROXY": PROXY, "NO_PROXY": no_proxy}) is None


@pytest.mark.parametrize(
    ("server", "environ", "proxy"),
    [
        ("https://api.example:6443", {}, None),
        ("https://api.example:6443", {"HTTPS_PROXY": ""}, None),
        ("https://api.example:6443", {"HTTPS_PROXY": PROXY}, PROXY),
        ("https://api.example:6443", {"https_proxy": PROXY}, PROXY),
        ("https://api.example:6443", {"HTTPS_PROXY": PROXY, "https_proxy": "http://x"}, PROXY),
        ("https://api.example:6443", {"HTTPS_PROXY": "", "https_proxy": PROXY}, PROXY),
        ("https://api.example:6443", {"HTTPS_PROXY": "10.0.0.3:3128"}, PROXY),
        ("https://api.example:6443", {"HTTPS_PROXY": "squid"}, "http://squid"),
        ("https://api.example:6443", {"HTTP_PROXY": PROXY, "ALL_PROXY": PROXY}, None),
        ("http://api.example:8080", {"HTTP_PROXY": PROXY}, PROXY),
        ("http://api.example:8080", {"HTTPS_PROXY": PROXY}, None),
        ("https://api.example", {"HTTPS_PROXY": PROXY, "no_proxy": "api.example:443"}, None),
    ],
)
def test_the_variable_of_the_servers_scheme_names_it(
    server: str, environ: dict[str, str], proxy: str | None
) -> None:
    assert find_proxy(server, environ) == proxy


@pytest.mark.parametrize(
    ("host", "no_proxy"),
    [
        *[("localhost", ""), ("127.0.0.1", ""), ("127.8.0.1", ""), ("[::1]", "")],
        *[("api.example", "*"), ("10.1.2.3", " a ,*"), ("api.example", "x, API.Example ,y")],
        *[("api.example", "example"), ("api.example", ".example"), ("a.b.example", "*.example")],
        *[("api.example", "api.example:6443"), ("api.example", ".example:6443")],
        *[("10.1.2.3", "10.1.2.3"), ("10.1.2.3", "10.1.2.3:6443")],
        *[("10.1.2.3", "10.0.0.0/8"), ("10.1.2.3", "192.168.0.0/16,10.1.2.99/24")],
        *[("[fd00::7]", "fd00::/8"), ("[fd00::7]", "fd00::7"), ("[fd00::7]", "[fd00::7]:6443")],
        *[("[fd00::7]", "fd00:0:0::7")],
    ],
)
def test_no_proxy_excepts_it(host: str, no_proxy: str) -> None:
    assert is_excepted(f"https://{host}:6443", no_proxy)


@pytest.mark.parametrize(
    ("host", "no_proxy"),
    [
        *[("api.example", ""), ("api.example", ","), ("localhost.example", "")],
        *[("badexample", "example")],
        *[("api.example", "*example"), ("api.example", "api"), ("api.example", "api.example:443")],
        *[("10.1.2.3", "10.1.2.4"), ("10.1.2.3", "10.1.2.3:443"), ("10.1.2.3", "2.3")],
        *[("10.1.2.3", "11.0.0.0/8"), ("10.1.2.3", "10.0.0.0/33"), ("api.example", "10.0.0.0/8")],
        *[("[fd00::7]", "10.0.0.0/8"), ("[fd00::7]", "[fd00::7]"), ("api.example", ":6443")],
        *[("10.1.2.3", "*.3"), ("10.1.2.3", "10.")],
    ],
)
def test_no_proxy_is_about_others(host: str, no_proxy: str) -> None:
    assert not is_excepted(f"https://{host}:6443", no_proxy)


@pytest.mark.parametrize(
    "proxy",
    [
        *["socks5://me:secret@10.0.0.3", "https://me:secret@10.0.0.3", "http://me:secret@:x"],
        *["http://me:secret@pro\u2028xy:1", "http://me:secret@xn--\u00fc:1"],
        *["http://me:secret@pro..xy:1", f"http://me:secret@{'x' * 64}:1"],
        *["http://m%3Ae:secret@proxy:1", "http://me:secret@ :1", " "],
    ],
)
def test_other_proxies_are_refused_and_their_password_is_not_shown(proxy: str) -> None:
    with pytest.raises(CredentialsError, match="HTTPS_PROXY must be http://HOST:PORT") as refused:
        find_proxy("https://api.example", {"HTTPS_PROXY": proxy})
    assert "secret" not in str(refused.value)
    assert find_proxy("https://api.example", {"HTTPS_PROXY": proxy, "NO_PROXY": "*"}) is None
