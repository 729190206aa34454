"""Seconds as a test sets them."""


class Clock:
    """Stands still until its `now` is set."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now
