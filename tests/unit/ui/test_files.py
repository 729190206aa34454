"""The page's files: they come with the wheel, name one another rightly, and nothing outside."""

import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[3]
PACKAGE = PROJECT / "operator/gpushare"
FILES = sorted((PACKAGE / "cli/ui/static").iterdir())
NAMES = {file.name for file in FILES}
MOST_LINES = 200


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_file_of_the_page_is_in_the_wheel_and_short(file: Path) -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())
    patterns = project["tool"]["setuptools"]["package-data"]["gpushare"]
    assert any(fnmatch(str(file.relative_to(PACKAGE)), pattern) for pattern in patterns)
    assert len(file.read_text().splitlines()) <= MOST_LINES


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_file_of_the_page_names_only_files_that_there_are(file: Path) -> None:
    text = file.read_text()
    named = re.findall(r'(?:src|href|from)[= ]"(?:\./)?([^"]+)"', text)
    assert set(named) <= NAMES


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_nothing_in_the_page_is_inline_or_from_elsewhere_or_made_of_text(file: Path) -> None:
    text = file.read_text().replace('xmlns="http://www.w3.org/2000/svg"', "")
    for word in ("http:", "https:", "//cdn", "innerHTML", "insertAdjacentHTML", "eval("):
        assert word not in text
    if file.suffix == ".html":
        assert not re.search(r"<style|<script(?![^>]* src=)|\sstyle=|\son\w+=", text)
