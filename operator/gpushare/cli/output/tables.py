"""Builds the documents of answers, and tables of them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel
from pydantic.alias_generators import to_camel

from gpushare.cli.output.answer import Cell, Line, Styled, lay_out

_MARKS = {True: Styled("yes", "green"), False: Styled("no", "red")}


def describe(value: Any) -> Any:
    """Convert `value` to data: a dataclass to a mapping of its fields, with names in camelCase."""
    if is_dataclass(value):
        return {to_camel(each.name): describe(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    if isinstance(value, Mapping):
        return {str(key): describe(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [describe(each) for each in value]
    if isinstance(value, Enum):
        return str(value)
    return tell_time(value) if isinstance(value, datetime) else value


def tell_time(moment: datetime | None) -> str | None:
    """Format a time, for users and programs."""
    return None if moment is None else moment.isoformat(timespec="seconds")


def tell_value(value: Any) -> Cell:
    """Format a value of a document for a table."""
    if isinstance(value, Styled):
        return value
    if isinstance(value, bool):
        return _MARKS[value]
    if isinstance(value, list):
        value = ", ".join(map(str, value))
    return "-" if value in (None, "") else str(value)


def build_table(
    columns: str,
    items: Iterable[Mapping[str, Any]],
    styles: Mapping[str, str] = MappingProxyType({}),
    *,
    indent: int = 2,
) -> list[Line]:
    """Build a table of these documents, without lines where there are none.

    `columns` are as kubectl's custom-columns: titles, each with the key that it shows; `styles` are
    by key.
    """
    titles, keys = zip(*(column.split(":") for column in columns.split(",")), strict=True)
    rows = [
        [_style(tell_value(item.get(key)), styles.get(key, "")) for key in keys] for item in items
    ]
    return lay_out(titles, rows, indent=indent) if rows else []


def build_section(
    title: str,
    columns: str,
    items: Iterable[Mapping[str, Any]],
    styles: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[Line]:
    """Build a table under a title."""
    if table := build_table(columns, items, styles):
        yield ()
        yield (Styled(title, "bold"),)
        yield from table


def _style(cell: Cell, style: str) -> Cell:
    return Styled(cell, style) if style and isinstance(cell, str) else cell
