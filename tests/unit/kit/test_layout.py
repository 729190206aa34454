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


@pytest.mark.parametrize("folder", ["operator", "devcluster", "demo", "tests", "bench"])
def test_a_file_too_long_to_be_read_at_once_is_found_at_any_depth(
    folder: str, tmp_path: Path
) -> None:
    write(tmp_path, f"{folder}/deep/long.py", 401)
    assert find_files(tmp_path) == [f"{folder}/deep/long.py"]


@pytest.mark.parametrize("name", ["utils", "pod_helpers", "manager_of_pods", "common"])
def test_a_module_whose_name_says_nothing_is_found(name: str, tmp_path: Path) -> None:
    write(tmp_path, f"tests/{name}.py")
    assert find_files(tmp_path) == [f"tests/{name}.py"]


def test_a_file_that_keeps_the_rules_is_not_complained_about(tmp_path: Path) -> None:
    write(tmp_path, "operator/gpushare/__init__.py")
    write(tmp_path, "operator/gpushare/commonality.py", 400)
    write(tmp_path, "docs/long_utils.txt", 401)
    assert find_files(tmp_path) == []
