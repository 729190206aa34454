"""Lists the Kubernetes versions that the product was tested on, from tested-versions.yaml."""

from dataclasses import dataclass
from pathlib import Path

import yaml

_LIST = Path(__file__).with_name("tested-versions.yaml")


@dataclass(frozen=True, slots=True)
class TestedVersion:
    """One version, the suite that was run on it, and the month of the last time."""

    version: str
    month: str
    """Month of the last run, such as 2026-11."""
    suite: str
    """The make target, or "every suite"."""

    @property
    def minor(self) -> str:
        """Minor version, as pages name it, such as 1.34."""
        return self.version.rpartition(".")[0]


def read_tested_versions() -> tuple[TestedVersion, ...]:
    """Read the list, the oldest first."""
    return tuple(TestedVersion(**each) for each in yaml.safe_load(_LIST.read_text()))


def render_table() -> str:
    """Build the list as a table of a page."""
    rows = [
        f"| {each.version} | {each.month} | {_name_suite(each)} |"
        for each in read_tested_versions()
    ]
    return "\n".join(["| Kubernetes | last tested | by |", "|---|---|---|", *rows, ""])


def _name_suite(tested: TestedVersion) -> str:
    return f"`{tested.suite}`" if tested.suite.startswith("make ") else tested.suite


if __name__ == "__main__":
    for each in read_tested_versions():
        print(f"{each.version:10} {each.month}  {each.suite}")
