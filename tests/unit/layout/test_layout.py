"""The shape of the repository."""

from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[3]
FOLDERS = ("operator", "devcluster", "demo", "tests")
MOST_LINES = 400
FILES = [path for folder in FOLDERS for path in sorted((PROJECT / folder).rglob("*.py"))]


def test_the_source_root_is_no_package() -> None:
    """A package called `operator` would shadow the standard library's module."""
    assert not (PROJECT / "operator/__init__.py").exists()


@pytest.mark.parametrize("file", FILES, ids=lambda path: str(path.relative_to(PROJECT)))
def test_no_file_is_too_long_to_be_read_at_once(file: Path) -> None:
    assert len(file.read_text().splitlines()) <= MOST_LINES


@pytest.mark.parametrize("word", ["utils", "helpers", "manager", "common"])
def test_no_module_has_a_name_that_says_nothing(word: str) -> None:
    assert [path for path in FILES if word in path.stem.split("_")] == []
