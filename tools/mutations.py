"""Take one safety rule out of the operator at a time, and see its tests fail.

`python -m tools.mutations [PART...]` runs what tools/mutants.toml lists, or what of it has one of
these parts in the mutant's name or the test's path, and prints a table. The exit status is 0 where
every test failed as it must.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.kit.cluster.operator_processes import SOURCE_VARIABLE

PROJECT = Path(__file__).resolve().parent.parent
_UNIT_SECONDS, _TIMEOUT_SECONDS = 300, 900
_SHOWN = 100
FAILED = "failed as it must"


@dataclass(frozen=True)
class Replacement:
    """A text that stands exactly once in a file of the operator, and its replacement."""

    file: str
    old: str
    new: str


@dataclass(frozen=True)
class Mutant:
    """The operator without a rule, and the tests that must fail then: first a unit test."""

    name: str
    replacements: tuple[Replacement, ...]
    tests: tuple[str, ...]


def read_mutants() -> tuple[Mutant, ...]:
    """Read the mutants of tools/mutants.toml."""
    listed = tomllib.loads((PROJECT / "tools/mutants.toml").read_text())["mutant"]
    keys = ("file", "old", "new")
    return tuple(
        Mutant(
            each["name"],
            tuple(Replacement(*(one[k] for k in keys)) for one in each.get("replace", [each])),
            tuple(f"tests/{test}" for test in each["tests"]),
        )
        for each in listed
    )


def build_mutated_source(mutant: Mutant, folder: Path) -> Path:
    """Copy the operator's source without the rule.

    Raises ValueError where a text is not there exactly once: the mutant must follow the code.
    """
    source = folder / "operator"
    shutil.copytree(
        PROJECT / "operator", source, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info")
    )
    for replacement in mutant.replacements:
        file = source / "gpushare" / replacement.file
        text = file.read_text()
        if (count := text.count(replacement.old)) != 1:
            raise ValueError(
                f"{mutant.name}: {replacement.file} holds {replacement.old!r} {count} times, "
                "expected once; bring tools/mutants.toml up to date"
            )
        file.write_text(text.replace(replacement.old, replacement.new))
    return source


def run(mutant: Mutant, test: str) -> str:
    """Run a test against the operator without the rule, and return its outcome."""
    is_unit = test.startswith("tests/unit/")
    with tempfile.TemporaryDirectory(prefix="gpushare-mutation-") as folder:
        source = build_mutated_source(mutant, Path(folder))
        own = ("-o", f"pythonpath={source} .") if is_unit else ()
        done = subprocess.run(
            [
                *(sys.executable, "-m", "pytest", test, *own, "-q", "-x", "-p", "no:randomly"),
                *("--tb=line", "--timeout=120"),
            ],
            cwd=PROJECT,
            env={**os.environ, SOURCE_VARIABLE: str(source)},
            capture_output=True,
            text=True,
            timeout=_UNIT_SECONDS if is_unit else _TIMEOUT_SECONDS,
            check=False,
        )
    lines = done.stdout.strip().splitlines() or [done.stderr.strip()]
    if done.returncode == 0:
        return "PASSED, though the rule was out"
    if "failed" not in lines[-1] or "error" in lines[-1]:
        return f"did not run: {lines[-1]}"
    said = next((line for line in lines if line.startswith(("/", "E  "))), "")
    return f"{FAILED}: {said.partition(': ')[2][:_SHOWN]}"


def main(parts: Sequence[str]) -> int:
    """Run the mutants with one of `parts` in their names, or all; return the exit status."""
    chosen = [
        (mutant, test)
        for mutant in read_mutants()
        for test in mutant.tests
        if not parts or any(part in mutant.name or part in test for part in parts)
    ]
    if not chosen:
        print(f"no mutant and no test in tools/mutants.toml has {parts} in it", file=sys.stderr)
        return 2
    results = []
    for mutant, test in chosen:
        results.append(run(mutant, test))
        print(f"{mutant.name} | {test.partition('::')[2]} | {results[-1]}", flush=True)
    return 0 if all(result.startswith(FAILED) for result in results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
