"""Text in columns, as Go's text/tabwriter sets it with a padding of two blanks.

A cell ends with a tab. A column is a run of lines that have a cell there; it is as wide as its
widest cell and the padding. What follows the last tab of a line belongs to no column ("Package
tabwriter" in the Go documentation).
"""

from itertools import groupby

_PADDING = 2


def align(text: str) -> str:
    """`text` with its tabs replaced by the blanks that make its cells columns."""
    lines = [line.split("\t") for line in text.split("\n")]
    for column in range(max(map(len, lines)) - 1):
        for has_cell, run in groupby(lines, key=lambda line: len(line) - 1 > column):
            if has_cell:
                _widen(list(run), column)
    return "\n".join(map("".join, lines))


def _widen(run: list[list[str]], column: int) -> None:
    width = max(len(line[column]) for line in run) + _PADDING
    for line in run:
        line[column] = line[column].ljust(width)
