"""Reads the parameters of `gpushare usage` as they are typed."""

import re
from collections.abc import Sequence
from decimal import Decimal
from enum import StrEnum

import typer
from yarl import URL

_SECONDS = {"m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_LEAST_SECONDS, _MOST_SECONDS = 600, 366 * 86_400
_DAY_SECONDS = 86_400
_PRICE = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)(?:/GiB-h)?", re.ASCII)
_MATCH = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.+)", re.ASCII)


SERVICE = re.compile(
    r"(?P<namespace>[a-z0-9-]{1,63})/(?P<service>(?:https?:)?[a-z0-9-]{1,63}:[a-z0-9-]{1,63})"
    r"(?P<path>(?:/(?!\.{1,2}(?:/|$))[\w.~-]+)*)/?",
    re.ASCII,
)
"""A Service and its port, perhaps with a scheme before and a path behind."""


class Grouping(StrEnum):
    """What a line of an answer is."""

    WORKLOAD = "workload"
    NAMESPACE = "namespace"
    POOL = "pool"


def check_address(url: str) -> None:
    """Check the address of Prometheus; empty where none is given. Raises `BadParameter`."""
    if url and not _is_address(url):
        message = "it is no address such as http://prometheus.monitoring:9090"
        if "@" in url:
            message += "; user and password belong into the file of --prometheus-config"
        raise typer.BadParameter(message, param_hint="--prometheus")


def _is_address(url: str) -> bool:
    try:
        parsed = URL(url)
    except ValueError:
        return False
    has_host = parsed.scheme in ("http", "https") and bool(parsed.host)
    is_bare = not (parsed.user or parsed.password or parsed.query_string or parsed.fragment)
    return has_host and is_bare and url.isprintable() and " " not in url


def check_service(service: str) -> None:
    """Check a Service; empty where none is given. Raises `BadParameter`."""
    if service and not SERVICE.fullmatch(service):
        message = f"{service!r} is not NAMESPACE/NAME:PORT, as monitoring/prometheus-k8s:9090"
        raise typer.BadParameter(message, param_hint="--prometheus-service")


def parse_window(text: str) -> int:
    """Parse a window such as 90m, 24h, 7d or 4w, in seconds. Raises `BadParameter`."""
    seconds = _parse_seconds(text, "--window")
    if not _LEAST_SECONDS <= seconds <= _MOST_SECONDS:
        raise typer.BadParameter(f"{text!r} is not between 10m and 366d", param_hint="--window")
    return seconds


def parse_min_data(text: str, window_seconds: int) -> int:
    """Parse the least time of data, in seconds. Raises `BadParameter`.

    By default a day, or the window. A fiftieth may be missing, such as while an exporter restarts.
    """
    seconds = _parse_seconds(text, "--min-data") if text else min(_DAY_SECONDS, window_seconds)
    if seconds > window_seconds:
        message = f"{text!r} is longer than the window"
        raise typer.BadParameter(message, param_hint="--min-data")
    return seconds - seconds // 50


def _parse_seconds(text: str, option: str) -> int:
    match = re.fullmatch(r"(\d{1,6})([mhdw])", text, re.ASCII)
    if match is None:
        message = f"{text!r} is no time such as 90m, 24h, 7d or 4w"
        raise typer.BadParameter(message, param_hint=option)
    return int(match[1]) * _SECONDS[match[2]]


def parse_price(text: str) -> Decimal | None:
    """Parse the price of a GiB for an hour; None without one. Raises `BadParameter`."""
    if not text:
        return None
    match = _PRICE.fullmatch(text)
    if match is None:
        message = f"{text!r} is no price such as 0.9/GiB-h"
        raise typer.BadParameter(message, param_hint="--price")
    return Decimal(match[1])


def parse_labels(texts: Sequence[str]) -> dict[str, str]:
    """Parse labels of series. Raises `BadParameter`."""
    found = {}
    for text in texts:
        match = _MATCH.fullmatch(text)
        if match is None:
            message = f"{text!r} is no label such as cluster=prod"
            raise typer.BadParameter(message, param_hint="--prometheus-label")
        found[match[1]] = match[2]
    return found
