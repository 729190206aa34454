"""Few combinations of many choices: each two of them meet at least once."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations, product
from typing import TypeVar

Value = TypeVar("Value")


def build_pairwise(choices: Mapping[str, Sequence[Value]]) -> list[dict[str, Value]]:
    """Rows with a value for each key, so that any two values of two keys are in some row together.

    Most faults of combined settings show where just two of them meet. Greedy: not many more rows
    than there must be, and the same ones each time.
    """
    places = [[(key, place) for place in range(len(values))] for key, values in choices.items()]
    # A dict, since a set would have another order in each process.
    missing = {
        frozenset(pair): pair
        for one, other in combinations(places, 2)
        for pair in product(one, other)
    }
    rows: list[dict[str, int]] = []
    while missing:
        wanted = Counter(choice for pair in missing.values() for choice in pair)
        row = dict(next(iter(missing.values())))
        for key, values in choices.items():
            if key not in row:
                gains = [
                    (
                        sum(frozenset({(key, place), had}) in missing for had in row.items()),
                        wanted[key, place],
                    )
                    for place in range(len(values))
                ]
                row[key] = gains.index(max(gains))
        for pair in combinations(row.items(), 2):
            missing.pop(frozenset(pair), None)
        rows.append(row)
    return [{key: values[row[key]] for key, values in choices.items()} for row in rows]
