"""Rules that select requests and define their faults."""

import contextlib
import random
import re
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field
from typing import Literal

_WAIT_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Request:
    at: float
    """Time on the monotonic clock."""
    method: str
    target: str
    """Path and query, unquoted."""
    body: bytes = b""

    def fits(self, method: str, path: str) -> bool:
        """Tell whether regular expressions match the whole method and a part of the target."""
        return bool(re.fullmatch(method, self.method) and re.search(path, self.target))


@dataclass
class Rule:
    """Faults of requests with a matching method and path; of several rules the first one applies.
    Faults can be combined; they happen in the order of the fields."""

    method: str
    """Regular expression for the whole method: `PATCH`, `.*`."""
    path: str
    """Regular expression that is searched in path and query."""

    # Which of the requests that fit.
    where: Callable[[Request], bool] | None = None
    """Tells whether the rule applies to a request, for example by its body."""
    nth: int = 1
    """Number of the first matching request to which the rule applies."""
    times: int | None = 1
    """Number of requests to which the rule applies; None: all, until it is removed."""
    probability: float = 1.0
    seed: int = 0

    # On the way there.
    hold: bool = False
    """Hold the request until `release`."""
    before: Callable[[], object] | None = None
    """Called instead of forwarding the request, for example to kill its sender."""
    status: int | None = None
    """Status of the proxy's own answer, with `headers` and `body`, without the API server."""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    """Body of the answer; None: a Status object for the status."""
    cut: Literal["request", "answer"] | None = None
    """Reset the connection before forwarding the request, or after the API server's answer."""
    stall: bool = False
    """Never answer or end the request."""
    query: Mapping[str, str] = field(default_factory=dict)
    """Parameters that replace those of the request."""

    # On the way back.
    after: Callable[[], object] | None = None
    """Called between the API server's answer and its return."""
    alter: Callable[[bytes], bytes | None] | None = None
    """Changes each line of the answer, or drops it (None). A watch has a line for each event."""
    mute: bool = False
    """Send only the headers of the answer, and never its end, as for a stalled watch."""

    matched: int = field(default=0, init=False)
    acted_on: list[Request] = field(default_factory=list, init=False)
    answered: int = field(default=0, init=False)
    """The API server's last status for a matching request."""
    reached: threading.Event = field(default_factory=threading.Event, init=False)
    removed: bool = field(default=False, init=False)
    released: Future[None] = field(default_factory=Future, init=False, repr=False)
    _chance: random.Random = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._chance = random.Random(self.seed)

    def takes(self, request: Request) -> bool:
        """Tell whether the rule applies to a request; to be called once for each."""
        if self.removed or not request.fits(self.method, self.path):
            return False
        if self.where is not None and not self.where(request):
            return False
        self.matched += 1
        spent = self.times is not None and len(self.acted_on) >= self.times
        if self.matched < self.nth or spent or self._chance.random() >= self.probability:
            return False
        self.acted_on.append(request)
        self.reached.set()
        return True

    def wait_reached(self) -> None:
        """Wait until the rule applies to a request. Raises AssertionError if none comes."""
        assert self.reached.wait(_WAIT_SECONDS), f"no {self.method} {self.path} came by"

    def release(self) -> None:
        """Forward the held requests."""
        with contextlib.suppress(InvalidStateError):
            self.released.set_result(None)

    def remove(self) -> None:
        """End the rule, and forward the held requests."""
        self.removed = True
        self.release()
