"""Prints answers: one renderer for all commands, all at once or not at all."""

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from gpushare.cli.exit_codes import CommandError, Exit
from gpushare.cli.output.control_characters import escape_controls

_GAP = 2


class Format(StrEnum):
    """Output formats of answers."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    CSV = "csv"


@dataclass(frozen=True, slots=True)
class Styled:
    """Text with a style of rich's, such as `bold red`; without colours the text alone."""

    text: str
    style: str = ""


Cell = str | Styled
"""Text of one cell. It may come from a cluster, so control characters in it are escaped."""
Line = Sequence[Cell]
Fact = tuple[str, Cell]
"""A key and its value."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a command, as data and as a page."""

    document: Any
    """Lists, mappings, strings and numbers."""
    build_page: Callable[[Any, bool], Iterable[Line]]
    """Builds the page of the document; where the second argument says so, wide: with more in it."""
    manifests: str = ""
    """Manifests that `-o yaml` prints in place of the document; empty without any."""
    build_csv: Callable[[Any], str] | None = None
    """Builds the lines of `-o csv` of the document; None where a command has none."""
    notes: Sequence[str] = ()
    """Messages on standard error beside those."""
    exit_code: Exit = Exit.OK


def build_messages(document: Any, wide: bool) -> list[Line]:
    """Build the page of a command that writes: the `messages` of its document."""
    return [(message,) for message in document["messages"]]


def print_answer(answer: Answer, shown_as: Format) -> None:
    """Print the answer on standard output. Raises `CommandError` where that can't be written."""
    match shown_as:
        case Format.JSON:
            from gpushare.cli.output.data import format_json

            print_text(format_json(answer.document))
        case Format.YAML if answer.manifests:
            for note in answer.notes:
                print_note(f"gpushare: {note}")
            print_text(answer.manifests)
        case Format.YAML:
            from gpushare.cli.output.data import format_yaml

            print_text(format_yaml(answer.document))
        case Format.CSV if answer.build_csv is not None:
            for note in answer.notes:
                print_note(f"gpushare: {note}")
            print_text(answer.build_csv(answer.document))
        case Format.TABLE | Format.WIDE:
            _print(answer.build_page(answer.document, shown_as is Format.WIDE))


def print_text(text: str) -> None:
    """Print a manifest or other data on standard output: as it is, in UTF-8, whatever the locale;
    but on a terminal without what is not text. Raises `CommandError` where it can't be written."""
    if _is_terminal():
        write(escape_controls(text, but="\t\n"))
    else:
        write(text.encode(errors="surrogateescape"))


def print_note(text: str) -> None:
    """Print a line on standard error; whatever it has in it stays one line."""
    if sys.stderr is not None:
        sys.stderr.write(f"{escape_controls(text)}\n")
        sys.stderr.flush()


def write(text: str | bytes) -> None:
    """Write to standard output. Raises `CommandError` where it is closed, or its disk full."""
    if sys.stdout is None:
        raise CommandError(Exit.FAILURE, "standard output is closed")
    try:
        if isinstance(text, str):
            sys.stdout.write(text)
        else:
            sys.stdout.flush()
            sys.stdout.buffer.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise give_output_up(error) from error


def give_output_up(error: OSError) -> CommandError:
    """Build the error for standard output that can't be written, and discard the rest of it.

    At its end Python would write it, and complain once more.
    """
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())
    return CommandError(Exit.FAILURE, f"standard output can't be written: {error.strerror}")


def lay_out(header: Sequence[str], rows: Iterable[Line], *, indent: int = 0) -> list[Line]:
    """Lay out a table in lines without blanks at their ends; no row is empty."""
    table: list[Line] = [tuple(Styled(title, "bold") for title in header), *rows]
    widths = [max(map(_measure, column)) for column in zip(*table, strict=True)]
    lines: list[Line] = []
    for row in table:
        cells: list[Cell] = [" " * indent]
        for cell, width in zip(row[:-1], widths[:-1], strict=True):
            cells += [cell, " " * (width - _measure(cell) + _GAP)]
        cells.append(row[-1])
        while not _text(cells[-1]).strip():
            cells.pop()
        lines.append(tuple(cells))
    return lines


def lay_out_facts(facts: Iterable[Fact], *, indent: int = 2) -> list[Line]:
    """Lay out a line for each fact, with the values in one column."""
    listed = list(facts)
    width = max((_measure(name) for name, _ in listed), default=0)
    return [
        (" " * indent, name, " " * (width - _measure(name) + _GAP), said) for name, said in listed
    ]


def _text(cell: Cell) -> str:
    return escape_controls(cell if isinstance(cell, str) else cell.text)


def _measure(cell: Cell) -> int:
    """Return how many columns a cell takes: Chinese characters take two."""
    text = _text(cell)
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _print(lines: Iterable[Line]) -> None:
    made = list(lines)
    if _is_terminal() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb":
        write(_colour(made))
    else:
        write("".join(f"{''.join(map(_text, line))}\n" for line in made))


def _is_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


def _colour(lines: Iterable[Line]) -> str:
    """Add the terminal's codes for colours (no-color.org says who wants none)."""
    # It takes a while to import.
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    with console.capture() as captured:
        for line in lines:
            text = Text()
            for cell in line:
                text.append(_text(cell), "" if isinstance(cell, str) else cell.style)
            console.print(text, soft_wrap=True)
    return captured.get()
