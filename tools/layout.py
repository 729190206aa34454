"""What ruff has no rule for: `python -m tools.layout` says which file of the checkout is wrong."""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

FOLDERS = ("operator", "memorytest", "devcluster", "demo", "tests", "bench", "tools")
MOST_LINES = 500
"""What can be read at once."""
MOST_MODULES = 14
"""What a folder of the program can hold and still be looked through."""
EMPTY_WORDS = frozenset({"utils", "helpers", "common"})
"""They say nothing about what is in a module."""
EDITION_FILES = ("operator/gpushare/editions/", "operator/gpushare/api/pool.py")
"""All others ask `EDITIONS` what an edition is like, so that a new one is one new module."""
NAMED_EDITION = re.compile(
    r"\bEdition\.[A-Z]|"
    r"gpushare\.editions\.(?!edition|registry|plugin|installed_stacks|maintenance|cards)"
)


def find_complaints(project: Path) -> Iterator[str]:
    """What is wrong, a line each."""
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
    """Classes of the program that have one name: a reader takes one for the other."""
    places: dict[str, list[str]] = {}
    for path in sorted((project / "operator").rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(str(path.relative_to(project)))
    for name, files in places.items():
        if len(files) > 1:
            yield f"{', '.join(files)}: each has a class `{name}`; rename all but one"


def main() -> None:
    """Exit with 1 and all complaints, or with 0."""
    sys.exit("\n".join(find_complaints(Path())) or 0)


if __name__ == "__main__":
    main()
