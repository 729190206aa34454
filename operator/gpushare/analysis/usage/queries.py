"""Builds the PromQL by which usage is read."""

import re
from collections.abc import Mapping, Sequence

from gpushare.analysis.usage.exporters import Exporter

ALLOCATED = "gpushare_application_memory_allocated_bytes"
OFFERED = "gpushare_pool_memory_bytes"
APPLICATION_LABELS = ("pool", "namespace", "kind", "workload")


def build_selector(
    exporter: Exporter, matched: Mapping[str, str], namespaces: Sequence[str] = ()
) -> str:
    """Build the selector of an exporter's series of pods, all or those of `namespaces`, with the
    labels that the user asked for."""
    terms = [f'{exporter.pod}!=""', *(f'{label}=""' for label in exporter.absent)]
    terms += _match(matched)
    if namespaces:
        names = "|".join(map(escape_pattern, namespaces))
        terms.append(f'{exporter.namespace}=~"{names}"')
    return f"{exporter.series}{{{','.join(terms)}}}"


def build_used(exporter: Exporter, selector: str) -> str:
    """Build the expression for the memory that each pod uses at one moment."""
    by = (exporter.namespace, exporter.pod, *([exporter.node] if exporter.node else []))
    node = (exporter.node,) if exporter.node else ()
    return f"sum by ({', '.join(by)}) ({_deduplicate(exporter, selector, node)})"


def build_peaks(exporter: Exporter, selector: str, window_seconds: int) -> str:
    """Build the expression for the largest value of each container on each card that was ever
    recorded. The largest values of its series are added, also where they were not at one time."""
    highest = f"max_over_time({selector}[{window_seconds}s])"
    return f"sum by ({', '.join(exporter.key)}) ({_deduplicate(exporter, highest)})"


def _deduplicate(exporter: Exporter, series: str, more: Sequence[str] = ()) -> str:
    """Take the same memory once that was read by two, or before and after a restart."""
    if exporter.may_split:
        return f"max without ({', '.join(exporter.added)}) ({series})"
    return f"max by ({', '.join((*exporter.key, *more))}) ({series})"


def build_allocated(matched: Mapping[str, str], namespace: str) -> str:
    """Build the expression for the memory allocated to each application, by pool; two controllers
    may both have reported it. An empty `namespace`: in all of them."""
    terms = _match(matched) + ([f'namespace="{namespace}"'] if namespace else [])
    return f"max by ({', '.join(APPLICATION_LABELS)}) ({ALLOCATED}{{{','.join(terms)}}})"


def build_offered(matched: Mapping[str, str]) -> str:
    """Build the expression for the memory that each pool offers."""
    return f"max by (pool) ({OFFERED}{{{','.join(_match(matched))}}})"


def _match(matched: Mapping[str, str]) -> list[str]:
    return [f'{label}="{_escape(value)}"' for label, value in matched.items()]


def escape_pattern(text: str) -> str:
    """Escape a text as a part of a regular expression in quotes."""
    return _escape(re.escape(text))


def _escape(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
