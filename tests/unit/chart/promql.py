"""What a PromQL expression reads: the names of its metrics, and the labels that it matches."""

import re

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_SELECTOR = re.compile(r"([a-zA-Z_:][\w:]*)?\{([^}]*)\}")
_MATCHER = re.compile(r"\s*(\w+)\s*(?:=~|!~|!=|=)")
_GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)")
_RANGE = re.compile(r"\[[^\]]*\]")
_NUMBER = re.compile(r"(?<![\w:])\d[\w.]*")
_CALL = re.compile(r"\b[a-z_]\w*\s*(?=\()")
_NAME = re.compile(r"[a-zA-Z_:][\w:]*")
_WORDS = frozenset({"and", "or", "unless", "bool", "offset", "inf", "nan", "by", "without"})
_VARIABLE = re.compile(r"\$\{?\w+\}?")


def list_metrics(expression: str) -> set[str]:
    """Names of the metrics, of recorded ones too; a query's template variables are none."""
    rest = _STRING.sub('""', expression)
    rest = _RANGE.sub("", _SELECTOR.sub(lambda found: found[1] or "", rest))
    # Aggregations come before what they group by, and leave their own name to the next step.
    rest = _CALL.sub("", _GROUPING.sub("", rest))
    rest = _NUMBER.sub("", _VARIABLE.sub("", rest))
    return set(_NAME.findall(rest)) - _WORDS - _list_aggregations(expression)


def list_matched_labels(expression: str) -> set[tuple[str, str]]:
    """Each metric with a label that it is selected by."""
    without_values = _STRING.sub('""', expression)
    return {
        (metric, label)
        for metric, matchers in _SELECTOR.findall(without_values)
        for label in _MATCHER.findall(matchers)
    }


def _list_aggregations(expression: str) -> set[str]:
    """Those that say how they group before their operand: `sum by (pool) (...)`."""
    return set(re.findall(r"\b([a-z_]+)\s+(?:by|without)\b", expression))
