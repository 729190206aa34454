"""A clock for tests."""


class Clock:
    """A clock that stands still until its `now` is set."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now
