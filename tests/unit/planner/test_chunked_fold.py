"""The sum that is kept chunk by chunk is that of a plain fold."""

from collections.abc import Sequence
from functools import reduce
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from gpushare.core.planner import chunked_fold
from gpushare.core.planner.chunked_fold import ChunkedFold

A_CHANGE = st.tuples(st.integers(0, 40).map(str), st.none() | st.frozensets(st.integers(0, 9)))
"""A key with its new value, or None where it is removed."""


def unite(first: frozenset[int], second: frozenset[int]) -> frozenset[int]:
    return first | second


@given(st.lists(A_CHANGE), st.integers(1, 4))
def test_after_any_changes_the_total_is_that_of_a_plain_fold(
    changes: Sequence[tuple[str, frozenset[int] | None]], chunk: int
) -> None:
    nothing = frozenset[int]()
    fold, values = ChunkedFold(nothing, unite), dict[str, frozenset[int]]()
    with patch.object(chunked_fold, "CHUNK", chunk):
        for key, value in changes:
            if value is None:
                fold.remove(key)
                values.pop(key, None)
            else:
                fold.put(key, value)
                values[key] = value
            assert fold.total == reduce(unite, values.values(), nothing)
