"""Label sets and label selectors, made up from a seed, with the edges where matchers go wrong."""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

Json = dict[str, Any]
Labels = dict[str, str]

LONGEST_KEY = ".".join(["p" * 63] * 3 + ["p" * 61]) + "/" + "n" * 63
LONGEST_VALUE = "v" * 63
PREFIXED_KEY = "example.com/tier"
PLAIN_KEY = "team"
NEVER_THERE = "never-there"
KEYS = (PLAIN_KEY, "zone", PREFIXED_KEY, LONGEST_KEY)
VALUES = ("", "a", "b", "c.d-e_f", "A", LONGEST_VALUE)

OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
EDGES = (
    "key that no object has",
    "key that some objects lack",
    "empty value",
    "one value",
    "many values",
    "duplicate values",
    "key with a prefix",
    "longest key",
    "longest value",
    "several requirements on one key",
    "matchLabels beside it",
)


@dataclass(frozen=True)
class Case:
    """A selector, as in a LabelSelector's JSON, and what it was made for."""

    operator: str
    edge: str
    selector: Json


def build_label_sets(count: int, seed: int) -> list[Labels]:
    """Label sets in which every key of KEYS is often absent, and every value occurs."""
    dice = random.Random(seed)
    return [{key: dice.choice(VALUES) for key in KEYS if dice.random() < 0.6} for _ in range(count)]


def build_cases(each: int, seed: int) -> Iterator[Case]:
    """For every operator at every edge, `each` selectors."""
    dice = random.Random(seed)
    for operator, edge, _ in product(OPERATORS, EDGES, range(each)):
        yield Case(operator, edge, _build_selector(operator, edge, dice))


def _build_selector(operator: str, edge: str, dice: random.Random) -> Json:
    key = {
        "key that no object has": NEVER_THERE,
        "key with a prefix": PREFIXED_KEY,
        "longest key": LONGEST_KEY,
    }.get(edge) or dice.choice(KEYS)
    expressions = [_require(key, operator, _values(edge, dice))]
    if edge == "several requirements on one key":
        another = dice.choice(OPERATORS)
        expressions.append(_require(key, another, _values(edge, dice)))
    selector: Json = {"matchExpressions": expressions}
    if edge == "matchLabels beside it":
        other = dice.choice([each for each in KEYS if each != key])
        selector["matchLabels"] = {other: dice.choice(VALUES)}
    return selector


def _values(edge: str, dice: random.Random) -> list[str]:
    match edge:
        case "empty value":
            return ["", *dice.sample(VALUES[1:], dice.randint(0, 2))]
        case "longest value":
            return [LONGEST_VALUE, *dice.sample(VALUES[:-1], dice.randint(0, 2))]
        case "one value":
            return [dice.choice(VALUES)]
        case "many values":
            return dice.sample(VALUES, len(VALUES) - 1) + [f"unused-{n}" for n in range(30)]
        case "duplicate values":
            return [dice.choice(VALUES)] * 3 + [dice.choice(VALUES)]
    return dice.sample(VALUES, dice.randint(1, 3))


def _require(key: str, operator: str, values: list[str]) -> Json:
    takes_values = operator in ("In", "NotIn")
    return {"key": key, "operator": operator, **({"values": values} if takes_values else {})}


def render_selector(selector: Mapping[str, Any]) -> str:
    """The selector as the API server reads it in `?labelSelector=`."""
    terms = [f"{key}={value}" for key, value in selector.get("matchLabels", {}).items()]
    for requirement in selector.get("matchExpressions", ()):
        key, values = requirement["key"], ",".join(requirement.get("values", ()))
        match requirement["operator"]:
            case "In":
                terms.append(f"{key} in ({values})")
            case "NotIn":
                terms.append(f"{key} notin ({values})")
            case "Exists":
                terms.append(key)
            case "DoesNotExist":
                terms.append(f"!{key}")
    return ",".join(terms)
