"""The lint of the repository's files: each rule finds its bad example, and nothing else."""

from pathlib import Path

import pytest

from tests.layout import find_complaints


def write(project: Path, file: str, lines: int = 1) -> None:
    path = project / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x = 1\n" * lines)


def find_files(project: Path) -> list[str]:
    return [complaint.partition(":")[0] for complaint in find_complaints(project)]


@pytest.mark.parametrize(
    ("file", "lines"),
    [
        ("operator/deep/long.py", 401),
        ("bench/long.py", 401),
        ("tests/utils.py", 1),
        ("tests/pod_helpers.py", 1),
        ("tests/manager_of_pods.py", 1),
    ],
)
def test_a_file_too_long_or_with_a_name_that_says_nothing_is_found(
    file: str, lines: int, tmp_path: Path
) -> None:
    write(tmp_path, file, lines)
    assert find_files(tmp_path) == [file]


def test_a_file_that_keeps_the_rules_is_not_complained_about(tmp_path: Path) -> None:
    write(tmp_path, "operator/gpushare/__init__.py")
    write(tmp_path, "operator/gpushare/commonality.py", 400)
    write(tmp_path, "docs/long_utils.txt", 401)
    assert find_files(tmp_path) == []
