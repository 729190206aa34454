"""Suggests the name that a user may have meant by an unknown one."""

from collections.abc import Iterable
from difflib import get_close_matches


def suggest(name: str, known: Iterable[str]) -> str:
    """Build the end of a sentence about `name`, with the known name most like it, if one is."""
    folded = {each.casefold(): each for each in sorted(known)}
    close = get_close_matches(name.casefold(), folded, n=1)
    return f" (did you mean {folded[close[0]]}?)" if close else ""
