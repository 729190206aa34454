"""Which of a test's cases `make test` runs; the others belong to a target of their own."""

from collections.abc import Mapping, Set
from typing import Any

import pytest


def select(
    cases: Mapping[str, Any], here: Set[str], *, elsewhere: pytest.MarkDecorator
) -> list[Any]:
    """A parameter of each case, by its name as ID; those that are not `here` are marked."""
    assert here <= cases.keys(), f"no cases: {here - cases.keys()}"
    return [
        pytest.param(case, id=name, marks=() if name in here else elsewhere)
        for name, case in cases.items()
    ]
