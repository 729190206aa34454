"""What ruff has no rule for: `python -m tests.layout` says which file of the checkout is wrong."""

import sys
from collections.abc import Iterator
from pathlib import Path

FOLDERS = ("operator", "devcluster", "demo", "tests", "bench")
MOST_LINES = 400
"""What can be read at once."""
EMPTY_WORDS = ("utils", "helpers", "manager", "common")
"""They say nothing about what is in a module."""


def find_complaints(project: Path) -> Iterator[str]:
    """What is wrong, a line each."""
    for path in sorted(path for folder in FOLDERS for path in (project / folder).rglob("*.py")):
        name = path.relative_to(project)
        if (lines := len(path.read_text().splitlines())) > MOST_LINES:
            yield f"{name}: {lines} lines are more than {MOST_LINES}; split it"
        for word in set(path.stem.split("_")).intersection(EMPTY_WORDS):
            yield f"{name}: `{word}` says nothing; rename it after what is in it"


def main() -> None:
    """Exit with 1 and all complaints, or with 0."""
    sys.exit("\n".join(find_complaints(Path())) or 0)


if __name__ == "__main__":
    main()
