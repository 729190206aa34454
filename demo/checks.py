"""What a step insists on."""

from devcluster.errors import DevclusterError


class UnmetError(DevclusterError):
    """Something did not come out as it must; the message says what was expected and seen."""


def expect(condition: bool, expectation: str, seen: object) -> None:
    """Raise :class:`UnmetError` unless ``condition`` holds; both others are parts of a sentence."""
    if not condition:
        raise UnmetError(f"Expected {expectation}; seen: {seen}.")
