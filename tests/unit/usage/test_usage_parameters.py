"""Parameters of `gpushare usage` as they are typed, and the file for Prometheus."""

import ssl
from decimal import Decimal
from pathlib import Path

import pytest
import typer

from gpushare.cli.exit_codes import CommandError, Exit
from gpushare.cli.input.named_workload import NamedWorkload, parse_workload
from gpushare.cli.output.data import format_csv
from gpushare.cli.usage.http_config import read_http_config
from gpushare.cli.usage.request import (
    check_address,
    check_service,
    parse_labels,
    parse_min_data,
    parse_price,
    parse_window,
)
from tests.kit.cluster.command_line import run_command


@pytest.mark.parametrize(
    ("text", "seconds"), [("90m", 5400), ("24h", 86_400), ("7d", 604_800), ("4w", 2_419_200)]
)
def test_a_window_is_a_number_and_a_unit(text: str, seconds: int) -> None:
    assert parse_window(text) == seconds


@pytest.mark.parametrize("text", ["", "7", "d", "7y", "-1d", "5m", "99w", "1d12h", "٧d"])
def test_another_window_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        parse_window(text)


@pytest.mark.parametrize("text", ["0.9/GiB-h", "0.9"])
def test_a_price_is_one_of_a_gib_for_an_hour(text: str) -> None:
    assert parse_price(text) == Decimal("0.9")


@pytest.mark.parametrize("text", ["0,9", "$0.9", "0.9/GB-h", "1e3", "-1"])
def test_another_price_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        parse_price(text)


@pytest.mark.parametrize(
    ("text", "workload"),
    [
        ("deployment/trainer", NamedWorkload("deployment", "trainer")),
        ("Deployments/trainer", NamedWorkload("deployment", "trainer")),
        ("sts/db", NamedWorkload("statefulset", "db")),
        ("cj/nightly", NamedWorkload("cronjob", "nightly")),
        ("raycluster/a", NamedWorkload("raycluster", "a")),
        ("rayclusters.ray.io/a", NamedWorkload("raycluster", "a")),
        ("isvc/a", NamedWorkload("inferenceservice", "a")),
        ("redis/a", NamedWorkload("redis", "a")),
    ],
)
def test_a_workload_is_named_as_for_kubectl(text: str, workload: NamedWorkload) -> None:
    assert parse_workload(text) == workload


@pytest.mark.parametrize("text", ["trainer", "deployment/", "/trainer", "deployment/a/b"])
def test_another_name_of_a_workload_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        parse_workload(text)


@pytest.mark.parametrize("text", ["monitoring/prometheus-k8s:9090", "m/https:p:web/select/0/prom"])
def test_a_service_has_a_namespace_and_a_port(text: str) -> None:
    check_service(text)


@pytest.mark.parametrize("text", ["prometheus:9090", "m/p", "m/p:9090/../../secrets", "m/p:9090?x"])
def test_another_service_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        check_service(text)


@pytest.mark.parametrize(
    "text",
    [
        *("prometheus:9090", "ftp://p", "http://p?x=1", "http:///api", "http://h:abc"),
        *("http://me:secret@h", "http://h:99999", "http://[::1", "http://h/a b"),
    ],
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        check_address(text)


@pytest.mark.parametrize("text", ["http://p:9090", "https://p/select/0/prom", "http://[::1]:9090"])
def test_an_address_may_have_a_port_and_a_path(text: str) -> None:
    check_address(text)


def test_a_label_may_have_any_value() -> None:
    assert parse_labels(["cluster=a=b"]) == {"cluster": "a=b"}


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--prometheus", "http://p", "--prometheus-service", "m/p:1"),
        ("--prometheus-service", "m/p:1", "--prometheus-config", "file"),
        ("--prometheus", "http://p", "--price", "1"),
        ("--prometheus", "http://p", "--window", "1h", "--min-data", "2h"),
        ("--prometheus", "http://p", "--by", "pool", "pod/a"),
    ],
)
def test_options_that_do_not_go_together_are_refused(arguments: tuple[str, ...]) -> None:
    assert run_command("usage", *arguments).code == Exit.USAGE


def test_a_token_and_a_tenant_are_headers(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret\n")
    file = tmp_path / "http.yaml"
    file.write_text(
        "authorization: {credentials_file: token}\nhttp_headers: {X-Scope-OrgID: {values: [a]}}\n"
    )

    headers = read_http_config(file).build_headers(tmp_path)

    assert headers == [("Authorization", "Bearer secret"), ("X-Scope-OrgID", "a")]


def test_a_user_and_a_password_are_basic_authentication(tmp_path: Path) -> None:
    file = tmp_path / "http.yaml"
    file.write_text("basic_auth: {username: me, password: secret}\n")

    assert read_http_config(file).build_headers(tmp_path) == [
        ("Authorization", "Basic bWU6c2VjcmV0")
    ]


def test_a_server_is_verified_unless_that_is_turned_off(tmp_path: Path) -> None:
    file = tmp_path / "http.yaml"
    file.write_text("tls_config: {insecure_skip_verify: true}\n")

    assert read_http_config(file).build_tls(tmp_path).verify_mode is ssl.CERT_NONE
    file.write_text("")
    assert read_http_config(file).build_tls(tmp_path).verify_mode is ssl.CERT_REQUIRED


@pytest.mark.parametrize(
    "text", ["bearer: x", "basic_auth: me", "- a", "a: [", "tls_config: {ca_file: 3}"]
)
def test_another_file_is_refused_and_its_values_are_not_shown(text: str, tmp_path: Path) -> None:
    file = tmp_path / "http.yaml"
    file.write_text(text)

    with pytest.raises(CommandError) as raised:
        read_http_config(file)

    assert raised.value.exit_code is Exit.USAGE


@pytest.mark.parametrize("part", ["ca_file", "cert_file"])
def test_a_certificate_that_is_none_is_refused(part: str, tmp_path: Path) -> None:
    (tmp_path / "pem").write_text("none")
    file = tmp_path / "http.yaml"
    file.write_text(f"tls_config: {{{part}: pem}}\n")

    with pytest.raises(ValueError, match="PEM"):
        read_http_config(file).build_tls(tmp_path)


def test_a_header_of_two_lines_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "http.yaml"
    file.write_text('http_headers: {X-Scope-OrgID: {values: ["a\\r\\nX-Admin: true"]}}\n')

    with pytest.raises(ValueError, match="X-Scope-OrgID"):
        read_http_config(file).build_headers(tmp_path)


def test_the_least_data_is_the_window_if_that_is_shorter_than_a_day() -> None:
    assert parse_min_data("", 7200) <= 7200 < 86_400 / 2 < parse_min_data("", 604_800)


def test_a_cell_of_csv_is_neither_a_formula_nor_a_control_character() -> None:
    lines = format_csv(["name"], [{"name": "=1+1"}, {"name": "a\x1b[31m"}, {"name": None}])

    assert "\n'=1+1\n" in lines
    assert "\x1b" not in lines
