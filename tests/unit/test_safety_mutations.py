"""What `make test-safety` takes out is still there to be taken out."""

from pathlib import Path

import pytest

from tests.mutations import MUTATIONS, Mutation, build_mutated_source


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.step)
def test_each_safety_step_can_be_taken_out_of_the_source(
    mutation: Mutation, tmp_path: Path
) -> None:
    assert build_mutated_source(mutation, tmp_path).is_dir()
