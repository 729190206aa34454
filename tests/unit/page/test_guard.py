"""Who may ask the page's server: the browser's address bar and the page itself, by GET."""

import pytest

from gpushare.cli.ui.guard import HEADERS, find_refusal

PORT = 8765
OWN = {"Host": f"127.0.0.1:{PORT}"}


def find_status(method: str = "GET", **headers: str) -> int:
    """Of the refusal; 200 for none."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    refusal = find_refusal(method, OWN | named, PORT)
    return 200 if refusal is None else refusal.status


@pytest.mark.parametrize("host", [f"127.0.0.1:{PORT}", f"localhost:{PORT}", f"LOCALHOST:{PORT}"])
def test_it_answers_under_its_own_names(host: str) -> None:
    assert find_status(Host=host) == 200


@pytest.mark.parametrize(
    "host",
    [
        "",
        "127.0.0.1",
        "localhost",
        "127.0.0.1:80",
        f"attacker.example:{PORT}",
        f"127.0.0.1.attacker.example:{PORT}",
        f"127.0.0.1:{PORT}@attacker.example",
        f"[::1]:{PORT}",
        f"0.0.0.0:{PORT}",
        f"127.0.0.1:{PORT}, attacker.example",
    ],
)
def test_another_name_that_leads_here_is_refused(host: str) -> None:
    assert find_status(Host=host) == 421


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_at_port_80_browsers_leave_the_port_out(host: str) -> None:
    own = {"Host": host, "Origin": f"http://{host}"}
    assert find_refusal("GET", own, 80) is None
    assert find_refusal("GET", own, PORT) is not None


def test_a_request_without_a_host_is_refused() -> None:
    refusal = find_refusal("GET", {}, PORT)
    assert refusal is not None
    assert refusal.status == 421


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE"])
def test_nothing_but_get_is_answered(method: str) -> None:
    assert find_status(method) == 405


@pytest.mark.parametrize("site", ["same-origin", "none"])
def test_the_page_itself_and_the_address_bar_may_ask(site: str) -> None:
    assert find_status(Sec_Fetch_Site=site) == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site", "", "nonsense"])
def test_another_site_may_not_ask_even_on_another_port_of_this_machine(site: str) -> None:
    assert find_status(Sec_Fetch_Site=site) == 403


@pytest.mark.parametrize("origin", [f"http://127.0.0.1:{PORT}", f"http://localhost:{PORT}"])
def test_its_own_origin_may_ask(origin: str) -> None:
    assert find_status(Origin=origin) == 200


@pytest.mark.parametrize(
    "origin",
    ["null", "", "https://attacker.example", "http://127.0.0.1:1", f"https://127.0.0.1:{PORT}"],
)
def test_another_origin_may_not_ask(origin: str) -> None:
    assert find_status(Origin=origin) == 403


def test_the_policy_lets_the_page_load_nothing_from_elsewhere_and_nothing_inline() -> None:
    policy = HEADERS["Content-Security-Policy"]
    assert policy.startswith("default-src 'self'; ")
    assert "unsafe" not in policy
    assert "http" not in policy
    assert "frame-ancestors 'none'" in policy
