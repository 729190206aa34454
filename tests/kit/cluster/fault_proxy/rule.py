"""Which requests something happens to, and what."""

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
    """On the monotonic clock."""
    method: str
    target: str
    """Path and query, unquoted."""
    body: bytes = b""

    def fits(self, method: str, path: str) -> bool:
        """Both are regular expressions: all of the method, any part of the target."""
        return bool(re.fullmatch(method, self.method) and re.search(path, self.target))


@dataclass
class Rule:
    """What happens to requests whose method and path fit; of several rules the first that acts. The
    parts can be combined; they happen in the order in which they stand here."""

    method: str
    """A regular expression for all of it: `PATCH`, `.*`."""
    path: str
    """A regular expression, searched in path and query."""

    # Which of the requests that fit.
    where: Callable[[Request], bool] | None = None
    """Says of each whether it is meant, by its body say."""
    nth: int = 1
    """The first of them that it acts on."""
    times: int | None = 1
    """How many it acts on; None: all, until it is removed."""
    probability: float = 1.0
    seed: int = 0

    # On the way there.
    hold: bool = False
    """Kept back until `release`."""
    before: Callable[[], object] | None = None
    """Called instead of sending the request on: to kill who sent it."""
    status: int | None = None
    """Answered so by the proxy, with `headers` and `body`; the API server never hears of it."""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    """Without one, a Status that says the same as the status."""
    cut: Literal["request", "answer"] | None = None
    """The connection is reset: before the API server hears of it, or once it has done its part."""
    stall: bool = False
    """Never answered, never ended: a black hole."""
    query: Mapping[str, str] = field(default_factory=dict)
    """Parameters that take the place of those of the same name."""

    # On the way back.
    after: Callable[[], object] | None = None
    """Called when the API server has answered, before the answer goes back."""
    alter: Callable[[bytes], bytes | None] | None = None
    """What becomes of each line of the answer; None: it is dropped. A watch has a line an event."""
    mute: bool = False
    """Its headers come, and nothing after them, not even the end: a watch that is deaf."""

    seen: int = field(default=0, init=False)
    acted_on: list[Request] = field(default_factory=list, init=False)
    answered: int = field(default=0, init=False)
    """The API server's last status for one of them."""
    reached: threading.Event = field(default_factory=threading.Event, init=False)
    removed: bool = field(default=False, init=False)
    released: Future[None] = field(default_factory=Future, init=False, repr=False)
    _chance: random.Random = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._chance = random.Random(self.seed)

    def takes(self, request: Request) -> bool:
        """Whether it acts on this request; each is to be asked about once."""
        if self.removed or not request.fits(self.method, self.path):
            return False
        if self.where is not None and not self.where(request):
            return False
        self.seen += 1
        spent = self.times is not None and len(self.acted_on) >= self.times
        if self.seen < self.nth or spent or self._chance.random() >= self.probability:
            return False
        self.acted_on.append(request)
        self.reached.set()
        return True

    def wait_reached(self) -> None:
        """Until it acts on a request; AssertionError if none comes."""
        assert self.reached.wait(_WAIT_SECONDS), f"no {self.method} {self.path} came by"

    def release(self) -> None:
        """Let what is held go on."""
        with contextlib.suppress(InvalidStateError):
            self.released.set_result(None)

    def remove(self) -> None:
        """It acts on nothing from now on; what it holds goes on."""
        self.removed = True
        self.release()
