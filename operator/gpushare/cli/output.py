"""How answers are printed: one renderer for all commands, all at once or not at all."""

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

_GAP = 2


class Format(StrEnum):
    """What an answer is printed as."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"


@dataclass(frozen=True, slots=True)
class Styled:
    """Text with a style of rich's, such as `bold red`; without colours the text alone."""

    text: str
    style: str = ""


Cell = str | Styled
Line = Sequence[Cell]
Fact = tuple[str, Cell]
"""What it is about, and what is so."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command has to say: as data, and for people."""

    document: Any
    """Lists, mappings, strings and numbers."""
    table: Callable[[], Iterable[Line]]
    wide: Callable[[], Iterable[Line]] | None = None
    """The table with more in it; None where there is no more."""


def print_answer(answer: Answer, shown_as: Format) -> None:
    """Print it on standard output."""
    match shown_as:
        case Format.JSON:
            import orjson

            options = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE | orjson.OPT_NON_STR_KEYS
            _print([(orjson.dumps(answer.document, option=options).decode().rstrip("\n"),)])
        case Format.YAML:
            import yaml

            text = yaml.safe_dump(answer.document, sort_keys=False, allow_unicode=True, width=100)
            _print([(text.rstrip("\n"),)])
        case Format.TABLE:
            _print(answer.table())
        case Format.WIDE:
            _print((answer.wide or answer.table)())


def print_text(text: str) -> None:
    """Print it on standard output as it is."""
    sys.stdout.write(text)
    sys.stdout.flush()


def lay_out(header: Sequence[str], rows: Iterable[Line], *, indent: int = 0) -> list[Line]:
    """Lines of a table, without blanks at their ends; no row is empty."""
    table: list[Line] = [tuple(Styled(title, "bold") for title in header), *rows]
    widths = [max(len(_text(cell)) for cell in column) for column in zip(*table, strict=True)]
    lines: list[Line] = []
    for row in table:
        cells: list[Cell] = [" " * indent]
        for cell, width in zip(row[:-1], widths[:-1], strict=True):
            cells += [cell, " " * (width - len(_text(cell)) + _GAP)]
        cells.append(row[-1])
        while not _text(cells[-1]).strip():
            cells.pop()
        lines.append(tuple(cells))
    return lines


def lay_out_facts(facts: Iterable[Fact], *, indent: int = 2) -> list[Line]:
    """A line for each fact, one beneath the other."""
    listed = list(facts)
    width = max((len(name) for name, _ in listed), default=0)
    return [(f"{'':{indent}}{name:<{width + _GAP}}", said) for name, said in listed]


def _text(cell: Cell) -> str:
    return cell if isinstance(cell, str) else cell.text


def _print(lines: Iterable[Line]) -> None:
    made = list(lines)
    if _wants_colours():
        _print_in_colours(made)
        return
    sys.stdout.write("".join(f"{''.join(map(_text, line))}\n" for line in made))
    sys.stdout.flush()


def _wants_colours() -> bool:
    """On a terminal, unless NO_COLOR is set (no-color.org)."""
    dumb = os.environ.get("TERM") == "dumb"
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and not dumb


def _print_in_colours(lines: Iterable[Line]) -> None:
    # It takes a while to import.
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    for line in lines:
        text = Text()
        for cell in line:
            text.append(_text(cell), "" if isinstance(cell, str) else cell.style)
        console.print(text, soft_wrap=True)
