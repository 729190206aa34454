"""How the installation is set, in the words of every command whose answer depends on it."""

from collections.abc import Iterator, Sequence
from typing import Any

from gpushare.api.variables import Variable
from gpushare.cli.output.answer import Line, Styled
from gpushare.cli.output.tables import describe
from gpushare.core.analysis.effective_settings import KnownSetup

Json = dict[str, Any]


def describe_setup(known: KnownSetup) -> Json:
    """Each variable with its value and where that is from."""
    document: Json = describe(dict(sorted(known.settings.items())))
    return document


def build_setup_lines(
    known: KnownSetup, about: Sequence[Variable], *, wide: bool = False
) -> Iterator[Line]:
    """What was assumed of what an answer is `about`, in a line; wide, where each value is from."""
    told = known.tell_assumed(about)
    if told:
        yield ()
        yield (Styled(f"Assumed{told.removeprefix('assumed')}", "dim"),)
    elif wide:
        yield ()
        yield (Styled(f"Set by {known.tell_sources(about)}", "dim"),)
    if known.elsewhere:
        text = f"Of device plugins nothing is known: {known.elsewhere}"
        yield (Styled(text, "yellow"),)
