"""Our label selectors mean what the API server's mean, and are refused where its are."""

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

import pytest

from devcluster.apiserver import ApiError
from gpushare.api.selector import LabelSelector, matches_selector
from tests.kit.bench import POOLS, Bench, Json
from tests.kit.values.manifests import build_pool

Labels = dict[str, str]

LONGEST_KEY = ".".join(["p" * 63] * 3 + ["p" * 61]) + "/" + "n" * 63
LONGEST_VALUE = "v" * 63
PREFIXED_KEY = "example.com/tier"
PLAIN_KEY = "team"
NEVER_THERE = "never-there"
KEYS = (PLAIN_KEY, "zone", PREFIXED_KEY, LONGEST_KEY)
VALUES = ("", "a", "b", "c.d-e_f", "A", LONGEST_VALUE)

OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
VALUE_LISTS = (
    [""],
    ["a"],
    ["a", "a"],
    ["", "b", "A"],
    [LONGEST_VALUE, "c.d-e_f"],
    [*VALUES[1:], *(f"unused-{n}" for n in range(30))],
)
SEED = 20260102
OBJECTS = 60
SELECTORS = 500
CORRELATOR = 30


def build_label_sets() -> list[Labels]:
    """Label sets in which every key of KEYS is often absent, and every value occurs."""
    dice = random.Random(SEED)
    return [{k: dice.choice(VALUES) for k in KEYS if dice.random() < 0.6} for _ in range(OBJECTS)]


def build_selectors() -> Iterator[Json]:
    """Every operator with every key and list of values, alone; then several of them together."""
    alone = [
        {"key": key, "operator": operator, **({"values": values} if values else {})}
        for key in (*KEYS, NEVER_THERE)
        for operator in OPERATORS
        for values in (VALUE_LISTS if operator in ("In", "NotIn") else [[]])
    ]
    yield from ({"matchExpressions": [each]} for each in alone)
    dice = random.Random(SEED)
    for _ in range(SELECTORS - len(alone)):
        selector: Json = {"matchExpressions": dice.sample(alone, dice.randint(1, 2))}
        if dice.random() < 0.5:
            selector["matchLabels"] = {dice.choice(KEYS): dice.choice(VALUES)}
        yield selector


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


INVALID = 422
NAMESPACE = "labelled"
CONFIG_MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"


@pytest.fixture
def labelled(bench: Bench) -> Iterator[dict[str, Labels]]:
    """Objects with made-up labels, in a namespace of their own: their labels by name."""
    bench.call("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    by_name = {f"set-{index}": labels for index, labels in enumerate(build_label_sets())}
    for name, labels in by_name.items():
        bench.call("POST", CONFIG_MAPS, {"metadata": {"name": name, "labels": labels}})
    yield by_name
    bench.call("DELETE", f"/api/v1/namespaces/{NAMESPACE}")


def test_our_matcher_agrees_with_the_api_servers(bench: Bench, labelled: dict[str, Labels]) -> None:
    correlator: Counter[str] = Counter()
    for raw in build_selectors():
        query = urlencode({"labelSelector": render_selector(raw)})
        items = bench.call("GET", f"{CONFIG_MAPS}?{query}")["items"]
        theirs = {item["metadata"]["name"] for item in items} & labelled.keys()

        selector = LabelSelector.model_validate(raw)
        ours = {name for name, labels in labelled.items() if matches_selector(selector, labels)}

        assert ours == theirs, raw
        if theirs and theirs != labelled.keys():
            correlator.update(each["operator"] for each in raw["matchExpressions"])
    # Where everything or nothing matches, a wrong matcher can be right by accident.
    assert min(correlator[operator] for operator in OPERATORS) >= CORRELATOR


def one(key: str = "team", operator: str = "In", *values: str) -> Json:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def equal(key: str = "team", value: str = "a") -> Json:
    return {"matchLabels": {key: value}}


LONG_NAME = "n" * 64
LONG_PREFIX = ".".join(["p" * 63] * 3 + ["p" * 62])  # 254 characters; 253 are allowed

GOOD: dict[str, Json] = {
    "the longest key and value": one(LONGEST_KEY, "In", LONGEST_VALUE),
    "the longest key and value in matchLabels": equal(LONGEST_KEY, LONGEST_VALUE),
    "an empty value": one("team", "NotIn", ""),
    "an empty value in matchLabels": equal("team", ""),
    "the same value twice": one("team", "In", "a", "a"),
    "upper case, dots, dashes and underscores": one("A.b-c_D", "In", "A.b-c_D"),
    "a key of one character": one("k", "Exists"),
    "a prefix of one character": one("p/k", "DoesNotExist"),
    "a prefix that begins with a digit": equal("3scale.net/k"),
    "requirements that contradict each other": {
        "matchExpressions": [
            {"key": "team", "operator": "Exists"},
            {"key": "team", "operator": "DoesNotExist"},
        ]
    },
}

BAD: dict[str, Json] = {
    "NotIn without values": one("team", "NotIn"),
    "DoesNotExist with a value": one("team", "DoesNotExist", "a"),
    "an empty key": one("", "Exists"),
    "a key with a space": one("the team", "Exists"),
    "a prefixed key with a name of 64 characters": one(f"p/{LONG_NAME}", "Exists"),
    "a key with a prefix of 254 characters": one(f"{LONG_PREFIX}/k", "Exists"),
    "a key without a name": one("example.com/", "Exists"),
    "a key without a prefix before its slash": one("/team", "Exists"),
    "a prefix in upper case": one("Example.com/k", "Exists"),
    "a prefix with a dash before a dot": one("a-.b/k", "Exists"),
    "a value of 64 characters": one("team", "In", LONG_NAME),
    "a value that begins with a dot": one("team", "NotIn", ".a"),
    "a good value and a bad one": one("team", "In", "a", "-b"),
    "an empty key in matchLabels": equal(""),
    "a key with a name of 64 characters in matchLabels": equal(LONG_NAME),
    "a key with a prefix of 254 characters in matchLabels": equal(f"{LONG_PREFIX}/k"),
    "a value of 64 characters in matchLabels": equal("team", LONG_NAME),
}


def is_taken(bench: Bench, path: str, body: Json) -> bool:
    """Whether the API server would create the object; it is not created."""
    try:
        bench.call("POST", f"{path}?dryRun=All", body)
    except ApiError as error:
        if error.status != INVALID:
            raise
        return False
    return True


def is_taken_by_kubernetes(bench: Bench, selector: Json) -> bool:
    """By the API server's own check of a LabelSelector; a PodDisruptionBudget has one."""
    spec = {"minAvailable": 1, "selector": selector}
    return is_taken(bench, BUDGETS, {"metadata": {"name": "any"}, "spec": spec})


@pytest.mark.parametrize("name", GOOD)
def test_a_selector_that_kubernetes_takes_is_taken(bench: Bench, name: str) -> None:
    assert is_taken_by_kubernetes(bench, GOOD[name])
    assert is_taken(bench, POOLS, build_pool(nodes={"selector": GOOD[name]}))


@pytest.mark.parametrize("name", BAD)
def test_a_selector_that_kubernetes_refuses_is_refused(bench: Bench, name: str) -> None:
    assert not is_taken_by_kubernetes(bench, BAD[name])
    assert not is_taken(bench, POOLS, build_pool(nodes={"selector": BAD[name]}))
