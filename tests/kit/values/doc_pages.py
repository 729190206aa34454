"""Parses the documentation's pages: code, headings, links and tables."""

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[3]
DOCS = PROJECT / "docs"

_FENCE = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^(#+) (.+)$", re.MULTILINE)
_LINK = re.compile(r"\]\(([^)\s:]+)\)")
_ROW = re.compile(r"^\|(.+)\|$", re.MULTILINE)
_FILE_NAME = re.compile(r"# ([\w-]+\.yaml)\n")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced code block."""

    language: str
    text: str

    @property
    def file_name(self) -> str | None:
        """Name of the file in a comment on the first line; None where there is none."""
        found = _FILE_NAME.match(self.text)
        return found[1] if found else None

    @property
    def commands(self) -> tuple[str, ...]:
        """Commands, each with its continued lines."""
        lines = re.sub(r"\\\n\s*", "", self.text).splitlines()
        return tuple(line.strip() for line in lines if line.strip())


@dataclass(frozen=True, slots=True)
class Page:
    path: Path

    @property
    def text(self) -> str:
        return self.path.read_text()

    @property
    def prose(self) -> str:
        return _FENCE.sub("", self.text)

    @property
    def blocks(self) -> tuple[Block, ...]:
        return tuple(
            Block(language, textwrap.dedent(text)) for language, text in _FENCE.findall(self.text)
        )

    @property
    def commands(self) -> tuple[str, ...]:
        """Commands for the reader, in order."""
        return tuple(c for block in self.blocks if block.language == "sh" for c in block.commands)

    @property
    def headings(self) -> tuple[int, ...]:
        """Levels of the headings, in order."""
        return tuple(len(marks) for marks, _ in _HEADING.findall(self.prose))

    @property
    def anchors(self) -> frozenset[str]:
        """Anchors of the headings, as GitHub generates them."""
        titles = (title.lower() for _, title in _HEADING.findall(self.prose))
        return frozenset(re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in titles)

    @property
    def links(self) -> tuple[str, ...]:
        """Links into the repository, as written."""
        return tuple(_LINK.findall(self.prose))

    @property
    def table_rows(self) -> tuple[str, ...]:
        """Every line of every table."""
        return tuple(_ROW.findall(self.prose))

    @property
    def missing(self) -> list[str]:
        """Broken links: to no file, or to no heading of a page."""
        return [link for link in self.links if not self._leads_somewhere(link)]

    def find_rows(self, heading: str) -> list[tuple[str, ...]]:
        """Find the cells of the table under a heading, without its head. Raises KeyError."""
        _, found, rest = self.text.partition(f"\n{heading}\n")
        if not found:
            raise KeyError(f"{self.path.name} has no heading {heading!r}")
        section = re.split(r"^#", rest, maxsplit=1, flags=re.MULTILINE)[0]
        rows = [tuple(c.strip() for c in row.split("|")) for row in _ROW.findall(section)]
        return rows[2:]

    def _leads_somewhere(self, link: str) -> bool:
        name, _, anchor = link.partition("#")
        target = self.path.parent / name if name else self.path
        if not target.exists():
            return False
        return not anchor or target.suffix != ".md" or anchor in Page(target).anchors
