"""The chart's objects by kind and name."""

from typing import Any

from tests.integration.chart.chart_values import Values, render_objects
from tests.kit.bench import Bench

Json = dict[str, Any]


def render_named(bench: Bench, values: Values) -> dict[tuple[str, str], Json]:
    """What Helm makes of these values."""
    objects = render_objects(bench.cluster, values)
    return {(each["kind"], each["metadata"]["name"]): each for each in objects}


def pod_of(objects: dict[tuple[str, str], Json], role: str) -> Json:
    """The spec of the pods of a role."""
    spec: Json = objects["Deployment", f"gpushare-{role}"]["spec"]["template"]["spec"]
    return spec
