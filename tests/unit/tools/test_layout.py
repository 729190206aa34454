"""The lint of the repository's files: each rule finds its bad example, and nothing else."""

from pathlib import Path

import pytest

from tools.layout import find_complaints


def write(project: Path, file: str, lines: int = 1, text: str = "x = 1\n") -> None:
    path = project / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text * lines)


def find_files(project: Path) -> list[str]:
    return [complaint.partition(":")[0] for complaint in find_complaints(project)]


@pytest.mark.parametrize(
    ("file", "lines", "text"),
    [
        ("bench/long.py", 501, "x = 1\n"),
        ("tests/pod_helpers.py", 1, "x = 1\n"),
        ("tools/page_utils.py", 1, "x = 1\n"),
        ("operator/gpushare/core/a.py", 1, "x = edition is Edition.BASIC"),
        ("operator/gpushare/core/a.py", 1, "from gpushare.editions.basic import BASIC"),
    ],
)
def test_a_file_that_breaks_a_rule_is_found(
    file: str, lines: int, text: str, tmp_path: Path
) -> None:
    """It is too long, or has a name or an edition in it that should not be there."""
    write(tmp_path, file, lines, text)
    write(tmp_path, "operator/gpushare/editions/registry.py", text="x = Edition.BASIC")
    assert find_files(tmp_path) == [file]


def test_a_folder_of_many_modules_is_found(tmp_path: Path) -> None:
    for number in range(15):
        write(tmp_path, f"operator/full/module{number}.py")
    assert find_files(tmp_path) == ["operator/full"]


def test_two_classes_of_one_name_are_found(tmp_path: Path) -> None:
    for name in ("operator/a.py", "operator/b/c.py", "tests/d.py"):
        write(tmp_path, name, text="class Claim: ...")
    assert find_files(tmp_path) == ["operator/a.py, operator/b/c.py"]


def test_a_file_that_keeps_the_rules_is_not_complained_about(tmp_path: Path) -> None:
    write(tmp_path, "operator/gpushare/__init__.py")
    write(tmp_path, "operator/gpushare/commonality.py", 400)
    write(tmp_path, "docs/long_utils.txt", 501)
    assert find_files(tmp_path) == []
