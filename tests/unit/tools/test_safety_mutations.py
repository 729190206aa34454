"""What `make test-safety` takes out is still there to be taken out."""

from pathlib import Path

import pytest

from tools.mutations import PROJECT, Mutant, build_mutated_source, read_mutants


@pytest.mark.parametrize("mutant", read_mutants(), ids=lambda mutant: mutant.name)
def test_each_rule_can_be_taken_out_and_has_a_unit_test_first(
    mutant: Mutant, tmp_path: Path
) -> None:
    assert build_mutated_source(mutant, tmp_path).is_dir()
    assert mutant.tests[0].startswith("tests/unit/")
    for test in mutant.tests:
        file, _, name = test.partition("::")
        assert f"def {name}(" in (PROJECT / file).read_text()
