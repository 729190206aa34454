"""The lint of the repository's files: each rule finds its bad example, and nothing else."""

from pathlib import Path

import pytest

from tests.layout import find_complaints


def write(project: Path, file: str, lines: int = 1, text: str = "x = 1\n") -> None:
    path = project / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text * lines)


def find_files(project: Path) -> list[str]:
    return [complaint.partition(":")[0] for complaint in find_complaints(project)]


@pytest.mark.parametrize(
    ("file", "lines"),
    [
        ("operator/deep/long.py", 401),
        ("bench/long.py", 401),
        ("tests/utils.py", 1),
        ("tests/pod_helpers.py", 1),
        ("tests/helpers_of_pods.py", 1),
    ],
)
def test_a_file_too_long_or_with_a_name_that_says_nothing_is_found(
    file: str, lines: int, tmp_path: Path
) -> None:
    write(tmp_path, file, lines)
    assert find_files(tmp_path) == [file]


@pytest.mark.parametrize(
    "text",
    [
        "class World: ...",
        "class NodePlan: ...",
        "def find_obstacles(): ...",
        "def f(*, second_look): ...",
        "the_rival = 1",
        "def f(x): x.put_back = 1",
        "class A:\n    joining: bool",
    ],
)
def test_a_word_of_this_projects_own_is_found(text: str, tmp_path: Path) -> None:
    write(tmp_path, "operator/a.py", text=text)
    assert find_files(tmp_path) == ["operator/a.py"]


@pytest.mark.parametrize(
    "text", ["x = edition is Edition.BASIC", "from gpushare.editions.basic import BASIC"]
)
def test_an_edition_that_is_named_outside_of_editions_is_found(text: str, tmp_path: Path) -> None:
    write(tmp_path, "operator/gpushare/editions/registry.py", text=text)
    write(tmp_path, "operator/gpushare/core/a.py", text=text)
    assert find_files(tmp_path) == ["operator/gpushare/core/a.py"]


def test_a_folder_of_many_modules_is_found(tmp_path: Path) -> None:
    for number in range(15):
        write(tmp_path, f"operator/full/module{number}.py")
    assert find_files(tmp_path) == ["operator/full"]


def test_a_file_that_keeps_the_rules_is_not_complained_about(tmp_path: Path) -> None:
    write(tmp_path, "operator/gpushare/__init__.py")
    write(tmp_path, "operator/gpushare/commonality.py", 400)
    write(tmp_path, "docs/long_utils.txt", 401)
    write(tmp_path, "tests/a.py", text="def test_a_rival_is_named(): found = worldwide = 1")
    assert find_files(tmp_path) == []
