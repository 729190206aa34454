"""`python -m tools.chart_readme` prints the chart's README: its values, from their comments."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from devcluster.startup import CHART

_KEY = re.compile(r"(?P<indent> *)(?P<key>\w+):")
_BEGIN, _GO_ON = "# -- ", "# "
_STEP = 2
_HEAD = """\
# gpushare-operator

{description}. Kubernetes {kubernetes}; tested with {tested}, last in {month}.

```sh
helm upgrade --install gpushare chart --namespace gpushare-system --create-namespace \\
    --values my-values.yaml
```

Made by `make chart-docs` from [values.yaml](values.yaml); a value that is not listed is refused.

| value | default | what it is for |
|---|---|---|
"""
_FOOT = """
## What has no value

Charts of other operators often have values for these; this one has none on purpose:

- names of objects and the namespace (`nameOverride`, `fullnameOverride`): a cluster has one
  installation, and admission policies, `helm uninstall` and `kubectl gpushare doctor` find its
  objects by their names;
- arguments, variables, volumes and sidecars of the containers: each setting of the program has a
  value above;
- `create: false` for ServiceAccounts and RBAC: the admission policies that restrict the accounts
  name them, and `doctor` compares the rights with the chart's;
- security contexts (but for `fixedUser`), probes, update strategy and PodDisruptionBudgets: they
  follow from how the program starts, answers and stops, and are tested as they are;
- `hostNetwork` and the type of the Service, for clusters whose API server does not reach pods:
  run the webhook outside the cluster (`deploy: false`, `webhook.url`);
- objects of your own: apply them beside the release.
"""


@dataclass(frozen=True, slots=True)
class Value:
    """A value that has a comment; what lies below it is part of its default."""

    path: tuple[str, ...]
    meaning: str


def read_values(text: str) -> Iterator[Value]:
    """List the commented values of a values.yaml that is indented by two spaces, in order."""
    path: list[str] = []
    comment: list[str] = []
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.startswith(_BEGIN):
            comment = [stripped.removeprefix(_BEGIN)]
        elif comment and stripped.startswith(_GO_ON):
            comment.append(stripped.removeprefix(_GO_ON))
        elif found := _KEY.match(line):
            path = [*path[: len(found["indent"]) // _STEP], found["key"]]
            if comment:
                yield Value(tuple(path), " ".join(comment))
            comment = []


def render_readme() -> str:
    """Build the README from the chart's values.yaml and Chart.yaml."""
    text = (CHART / "values.yaml").read_text()
    about = yaml.safe_load((CHART / "Chart.yaml").read_text())
    head = _HEAD.format(
        description=about["description"],
        kubernetes=about["kubeVersion"].removesuffix("-0"),
        tested=about["annotations"]["gpushare.io/tested-kubernetes"],
        month=about["annotations"]["gpushare.io/tested-in"],
    )
    defaults = yaml.safe_load(text)
    rows = (_render_row(value, defaults) for value in read_values(text))
    return "".join([head, *rows, _FOOT])


def _render_row(value: Value, defaults: Any) -> str:
    for key in value.path:
        defaults = defaults[key]
    cells = (f"`{'.'.join(value.path)}`", f"`{json.dumps(defaults)}`", value.meaning)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |\n"


if __name__ == "__main__":
    print(render_readme(), end="")
