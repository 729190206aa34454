"""Checks rules that ruff lacks: `python -m tools.layout` lists the files that break them."""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

FOLDERS = ("operator", "memorytest", "devcluster", "demo", "tests", "bench", "tools")
MOST_LINES = 500
"""Limit of lines of a module."""
MOST_MODULES = 14
"""Limit of modules in a folder of the program."""
EMPTY_WORDS = frozenset({"utils", "helpers", "common"})
"""Names that say nothing about the content of a module."""
EDITION_FILES = ("operator/gpushare/editions/", "operator/gpushare/api/pool.py")
"""Places that may name an edition. All others ask `EDITIONS`: a new edition is one new module."""
NAMED_EDITION = re.compile(
    r"\bEdition\.[A-Z]|"
    r"gpushare\.editions\.(?!edition|registry|plugin|installed_stacks|maintenance|cards)"
)


def find_complaints(project: Path) -> Iterator[str]:
    """Yield each violation as a line."""
    for path in sorted(path for folder in FOLDERS for path in (project / folder).rglob("*.py")):
        name, text = path.relative_to(project), path.read_text()
        if (lines := len(text.splitlines())) > MOST_LINES:
            yield f"{name}: {lines} lines are more than {MOST_LINES}; split it"
        for word in set(path.stem.split("_")):
            if word in EMPTY_WORDS:
                yield f"{name}: `{word}` says nothing; rename it after what is in it"
        is_program = name.parts[0] == "operator"
        is_outside = is_program and not str(name).startswith(EDITION_FILES)
        if is_outside and NAMED_EDITION.search(text):
            yield f"{name}: names an edition; ask `EDITIONS` for what matters of it"
    for folder in sorted((project / "operator").rglob("*/")):
        if (modules := len(set(folder.glob("*.py")) - {folder / "__init__.py"})) > MOST_MODULES:
            name = folder.relative_to(project)
            yield f"{name}: {modules} modules are more than {MOST_MODULES}; make a package of some"
    yield from _find_shared_names(project)


def _find_shared_names(project: Path) -> Iterator[str]:
    """Yield the names that two classes of the program share: a reader confuses them."""
    places: dict[str, list[str]] = {}
    for path in sorted((project / "operator").rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(str(path.relative_to(project)))
    for name, files in places.items():
        if len(files) > 1:
            yield f"{', '.join(files)}: each has a class `{name}`; rename all but one"


def main() -> None:
    """Print all violations and exit with 1, or exit with 0."""
    sys.exit("\n".join(find_complaints(Path())) or 0)


if __name__ == "__main__":
    main()
