"""What somebody may have meant by a name that there is not."""

from collections.abc import Iterable
from difflib import get_close_matches


def suggest(name: str, known: Iterable[str]) -> str:
    """The end of a sentence about it, with the known name that looks most like it, if one does."""
    folded = {each.casefold(): each for each in sorted(known)}
    close = get_close_matches(name.casefold(), folded, n=1)
    return f"; did you mean {folded[close[0]]}?" if close else ""
