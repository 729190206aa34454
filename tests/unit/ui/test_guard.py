"""Who may ask the page's server: the browser's address bar and the page itself, by GET."""

import pytest

from gpushare.cli.ui.guard import HEADERS, find_refusal

PORT = 8765


def find_status(method: str = "GET", **headers: str) -> int:
    """Of the refusal; 200 for none."""
    refusal = find_refusal(method, {"Host": f"127.0.0.1:{PORT}"} | headers, PORT)
    return 200 if refusal is None else refusal[0]


@pytest.mark.parametrize(
    ("status", "header", "values"),
    [
        (200, "Host", [f"127.0.0.1:{PORT}", f"localhost:{PORT}", f"LOCALHOST:{PORT}"]),
        (421, "Host", ["", "127.0.0.1", "localhost", "127.0.0.1:80", f"[::1]:{PORT}"]),
        (421, "Host", [f"attacker.localhost:{PORT}", f"127.0.0.1.attacker.example:{PORT}"]),
        (421, "Host", [f"127.0.0.1:{PORT}@attacker.example", f"0.0.0.0:{PORT}"]),
        (421, "Host", [f"127.0.0.1:{PORT}, attacker.example"]),
        (200, "Sec-Fetch-Site", ["same-origin", "none"]),
        (403, "Sec-Fetch-Site", ["cross-site", "same-site", "", "nonsense"]),
        (200, "Origin", [f"http://127.0.0.1:{PORT}", f"http://localhost:{PORT}"]),
        (403, "Origin", ["null", "", "https://attacker.example", "http://127.0.0.1:1"]),
        (403, "Origin", [f"https://127.0.0.1:{PORT}"]),
    ],
)
def test_only_the_page_itself_and_the_address_bar_may_ask_under_its_own_names(
    status: int, header: str, values: list[str]
) -> None:
    assert [find_status(**{header: value}) for value in values] == [status] * len(values)


def test_a_request_without_a_host_and_whatever_is_no_get_is_refused() -> None:
    refusal = find_refusal("GET", {}, PORT)
    assert refusal is not None
    assert refusal[0] == 421
    for method in ("POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE"):
        assert find_status(method) == 405


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_at_port_80_browsers_leave_the_port_out(host: str) -> None:
    own = {"Host": host, "Origin": f"http://{host}"}
    assert find_refusal("GET", own, 80) is None
    assert find_refusal("GET", own, PORT) is not None


def test_the_policy_lets_the_page_load_nothing_from_elsewhere_and_nothing_inline() -> None:
    policy = HEADERS["Content-Security-Policy"]
    assert policy.startswith("default-src 'self'; ")
    assert "unsafe" not in policy
    assert "http" not in policy
    assert "frame-ancestors 'none'" in policy
