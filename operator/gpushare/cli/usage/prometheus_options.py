"""Defines the options that say which Prometheus a command reads."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from gpushare.cli.usage import request

Url = Annotated[
    str,
    typer.Option(
        metavar="<url>",
        help="Address of Prometheus, or of what answers as it does, with the path before /api/v1.",
    ),
]
Service = Annotated[
    str,
    typer.Option(
        metavar="<namespace/name:port>",
        help="Instead: its Service, called through the API server; https:NAME for TLS. Takes "
        "the right to get services/proxy.",
    ),
]
Config = Annotated[
    Path | None,
    typer.Option(
        metavar="<path>",
        help="With --prometheus: a file with token, password, CA or headers, as promtool's "
        "--http.config.file.",
    ),
]
Labels = Annotated[
    list[str] | None,
    typer.Option(
        metavar="<label=value>",
        help="Read only series with this label, such as that of one of several clusters. May "
        "be given several times.",
    ),
]


@dataclass(frozen=True, slots=True)
class PrometheusOptions:
    """A Prometheus, as the options name it: by address or else by Service."""

    url: str
    service: str
    config: Path | None
    labels: Mapping[str, str]
    """Labels that the series must have."""


def parse_prometheus(
    url: str, service: str, config: Path | None, labels: Sequence[str] | None
) -> PrometheusOptions | None:
    """Parse the options; None where no Prometheus is named. Raises `BadParameter`."""
    request.check_address(url)
    request.check_service(service)
    if url and service:
        message = "can't be combined with --prometheus-service"
        raise typer.BadParameter(message, param_hint="--prometheus")
    if config is not None and not url:
        raise typer.BadParameter("requires --prometheus", param_hint="--prometheus-config")
    matched = request.parse_labels(labels or ())
    if url or service:
        return PrometheusOptions(url, service, config, matched)
    if matched:
        message = "requires --prometheus or --prometheus-service"
        raise typer.BadParameter(message, param_hint="--prometheus-label")
    return None
