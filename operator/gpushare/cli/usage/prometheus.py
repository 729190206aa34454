"""Calls Prometheus: by its address, or as a Service through the API server."""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from math import isnan
from pathlib import Path
from typing import Any, Protocol, TypeVar

import aiohttp
import orjson

from gpushare.analysis.usage.reading import Labelled, Point
from gpushare.cli.cluster.access import Access
from gpushare.cli.exit_codes import CommandError, Exit
from gpushare.cli.usage.http_config import HttpConfig, build_invalid, read_http_config
from gpushare.cli.usage.prometheus_options import PrometheusOptions
from gpushare.cli.usage.request import SERVICE
from gpushare.kube.client import ApiClient, read_answer
from gpushare.kube.errors import (
    AnswerTooLongError,
    ApiError,
    MalformedAnswerError,
    describe_failure,
)

Json = dict[str, Any]
Answer = TypeVar("Answer")
Series = tuple[Mapping[str, str], tuple[Point, ...]]
_TIMEOUT = aiohttp.ClientTimeout(total=60, connect=5)
_AT_ONCE = 4
"""Calls at one time: by default Prometheus answers 20 of all its users."""
_QUERY_TIMEOUT = "25s"
"""Less than the API server's proxy is waited for: so Prometheus says itself what took too long."""
_MOST_BYTES = 128 * 2**20
"""Length of an answer: a week of 16,000 pods. In memory it takes several times that."""
_TOO_MUCH = (414, 422, 503, 504)
"""Prometheus' answers to a query that takes too many samples, or too long."""
_MESSAGE = 300


class TooMuchError(Exception):
    """A query takes too many samples, or too long, or its answer is too long: a part of it may be
    answered."""


class TooSlowError(Exception):
    """Prometheus does not answer in time."""


class PrometheusError(Exception):
    """Prometheus refuses a call; the message is its own, cut."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Caller(Protocol):
    """Sends a call."""

    async def __call__(self, path: str, params: Mapping[str, str]) -> Json:
        """Return the answer. Raises `PrometheusError` and `AnswerTooLongError`."""
        ...


@dataclass(slots=True)
class Prometheus:
    """A Prometheus, or what answers as one does."""

    name: str
    """For a user."""
    call: Caller
    clock_difference_seconds: float = 0.0
    """By how much its clock is ahead of this machine's."""
    warnings: set[str] = field(default_factory=set)
    """What it warned of, such as that its answers are incomplete."""
    _turn: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))

    async def read_time(self) -> float:
        """Read its clock, in seconds since 1970."""
        began = time.time()
        moment = await self._ask("query", _parse_moment, query="time()")
        # Without the time that the answer took.
        self.clock_difference_seconds = moment - min(max(moment, began), time.time())
        return moment

    async def list_values(self, label: str, selector: str, start: float, end: float) -> list[str]:
        """List the values of a label in a span, of series that `selector` selects."""
        asked = {"match[]": selector, "start": f"{start:.0f}", "end": f"{end:.0f}"}
        return await self._ask(f"label/{label}/values", _parse_values, **asked)

    async def query(self, expression: str) -> list[Labelled]:
        """Evaluate an expression now."""
        asked = {"query": expression, "timeout": _QUERY_TIMEOUT}
        return await self._ask("query", _parse_vector, **asked)

    async def query_range(
        self, expression: str, start: float, end: float, step_seconds: int
    ) -> list[Series]:
        """Evaluate an expression at moments that are `step_seconds` apart."""
        span = {"start": f"{start:.0f}", "end": f"{end:.0f}", "step": f"{step_seconds}s"}
        asked = {"query": expression, "timeout": _QUERY_TIMEOUT, **span}
        return await self._ask("query_range", _parse_matrix, **asked)

    async def _ask(self, path: str, parse: Callable[[Any], Answer], **params: str) -> Answer:
        async with self._turn:
            try:
                answer = await self.call(f"api/v1/{path}", params)
            except PrometheusError as error:
                raise self._describe(error) from error
            except AnswerTooLongError as error:
                raise TooMuchError(f"{self.name} answers {error}") from error
        try:
            self.warnings.update(map(str, answer.get("warnings") or ()))
            if answer.get("isPartial"):
                self.warnings.add("the answer is partial")
            return parse(answer["data"])
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            message = f"{self.name} does not answer as Prometheus does"
            raise CommandError(Exit.FAILURE, message) from error

    def _describe(self, error: PrometheusError) -> Exception:
        said = f"{self.name} answers {error.status} ({error})"
        match error.status:
            case status if status in _TOO_MUCH:
                return TooMuchError(said)
            case 401:
                message = f"{said}. Give a token or password by --prometheus-config"
                return CommandError(Exit.NO_CREDENTIALS, message)
            case 403:
                return CommandError(Exit.FORBIDDEN, f"{said}: a right is missing")
            case 404:
                message = f"{said}. Check the address, with the path before /api/v1"
                return CommandError(Exit.NOT_FOUND, message)
            case _:
                return CommandError(Exit.FAILURE, said)


def _parse_moment(data: Any) -> float:
    # VictoriaMetrics answers a vector where Prometheus answers a scalar.
    first = data["result"][0]
    return float(first["value"][1] if isinstance(first, dict) else first)


def _parse_values(data: Any) -> list[str]:
    return [str(value) for value in data if value]


def _parse_vector(data: Any) -> list[Labelled]:
    samples = ((_parse_labels(each), float(each["value"][1])) for each in data["result"])
    return [sample for sample in samples if not isnan(sample[1])]


def _parse_matrix(data: Any) -> list[Series]:
    return [(_parse_labels(each), _parse_points(each["values"])) for each in data["result"]]


def _parse_labels(series: Json) -> Mapping[str, str]:
    return {str(name): str(value) for name, value in series["metric"].items()}


def _parse_points(values: Sequence[Sequence[Any]]) -> tuple[Point, ...]:
    # Of these there are millions.
    return tuple([(moment, float(value)) for moment, value in values if value != "NaN"])


@asynccontextmanager
async def open_prometheus(access: Access, options: PrometheusOptions) -> AsyncIterator[Prometheus]:
    """Open the Prometheus at an address, or else behind a Service as `check_service` accepts it.

    Raises `CommandError`, and what else `errors_as_sentences` knows.
    """
    url, service, config = options.url, options.service, options.config
    if service:
        match = SERVICE.fullmatch(service)
        assert match is not None, "checked when it was typed"
        async with await access.connect() as api:
            yield Prometheus(f"Prometheus ({service})", _call_service(api, match))
        return
    settings = HttpConfig() if config is None else read_http_config(config)
    folder = Path() if config is None else config.parent
    try:
        tls, headers = settings.build_tls(folder), settings.build_headers(folder)
    except ValueError as error:
        assert config is not None, "without a file there is nothing to be wrong"
        raise build_invalid(config, str(error)) from error
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=tls),
        timeout=_TIMEOUT,
        headers=headers,
        trust_env=not settings.proxy_url,
        proxy=settings.proxy_url or None,
    ) as session:
        name = settings.tls_config.server_name or None
        yield Prometheus(f"Prometheus ({url})", _call_address(session, url, name))


def _call_service(api: ApiClient, match: re.Match[str]) -> Caller:
    base = (
        f"api/v1/namespaces/{match['namespace']}/services/{match['service']}/proxy{match['path']}"
    )

    async def call(path: str, params: Mapping[str, str]) -> Json:
        try:
            return await api.get_at_most(_MOST_BYTES, f"{base}/{path}", **params)
        except ApiError as error:
            # A refusal of the API server itself has a reason, an answer of Prometheus none.
            if error.reason == "ServiceUnavailable":
                message = f"Prometheus ({match[0]}) can't be reached ({error.message})"
                raise CommandError(Exit.NO_CLUSTER, message) from error
            if error.reason and not error.is_not_found:
                raise
            raise PrometheusError(error.status, error.message[:_MESSAGE]) from error
        except MalformedAnswerError as error:
            raise PrometheusError(200, str(error)[:_MESSAGE]) from error

    return call


def _call_address(session: aiohttp.ClientSession, url: str, server_name: str | None) -> Caller:
    base = url.rstrip("/")

    async def call(path: str, params: Mapping[str, str]) -> Json:
        try:
            async with session.get(
                f"{base}/{path}", params=params, server_hostname=server_name, allow_redirects=False
            ) as response:
                body = await read_answer(response, _MOST_BYTES)
                status, target = response.status, response.headers.get("Location")
        except TimeoutError as error:
            raise TooSlowError(f"Prometheus ({base}) does not answer in time") from error
        except aiohttp.ClientError as error:
            # Its own text may quote the address of a proxy with a password.
            why = describe_failure(error)
            message = f"no Prometheus at {base} ({why}). Check --prometheus, and that it runs"
            raise CommandError(Exit.NO_CLUSTER, message) from error
        try:
            answer = orjson.loads(body)
        except orjson.JSONDecodeError:
            answer = None
        if status == 200 and isinstance(answer, dict):
            return answer
        said = answer.get("error") if isinstance(answer, dict) else None
        if target is not None:
            said = f"a redirect to {target}, which is not followed"
        raise PrometheusError(status, str(said or "no answer of Prometheus")[:_MESSAGE])

    return call
