"""How long each part of a run took."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.bench.session import say


class Clock:
    """Seconds by part, in the order in which they came to an end."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def timing(self, part: str) -> Iterator[None]:
        """Count the block as this part; said, too, once it is left in order."""
        started = time.monotonic()
        yield
        self.seconds[part] = round(time.monotonic() - started, 1)
        say(f"{part} took {self.seconds[part]:.0f} s")
