"""Take one safety step out of the operator at a time, and see its test fail.

`python -m tests.mutations [STEP...]` runs the named steps, or all, and prints a table. The exit
status is 0 where every test failed as it must.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.kit.operator import SOURCE_VARIABLE

PROJECT = Path(__file__).resolve().parent.parent
_SAFETY = "tests/integration/test_safety_steps.py"
_ROLLOUT = "tests/integration/test_rollout.py"
_TIMEOUT_SECONDS = 300
_SHOWN = 100
FAILED = "failed as it must"


@dataclass(frozen=True)
class Replacement:
    """A text that stands exactly once in a file of the operator, and what takes its place."""

    file: str
    old: str
    new: str


@dataclass(frozen=True)
class Mutation:
    """A step that is taken out, and the test that must fail then."""

    step: str
    test: str
    replacements: tuple[Replacement, ...]
    file: str = _SAFETY


MUTATIONS: tuple[Mutation, ...] = (
    Mutation(
        "cordon",
        "test_cordon_keeps_pods_off_a_node_whose_plugin_is_away",
        (
            Replacement("kube/nodes.py", "    if action.cordon:\n", "    if False:\n"),
            # Else a node that is not cordoned is given way to, or cordoned again.
            Replacement(
                "core/observed.py",
                "        return self.node.unschedulable\n",
                "        return True\n",
            ),
        ),
    ),
    Mutation(
        "second look",
        "test_second_look_gives_way_to_a_binding_that_was_in_flight",
        (
            Replacement(
                "controller/apply.py",
                "for gap in (0.0, self.settings.second_look_seconds):",
                "for gap in (0.0,):",
            ),
        ),
    ),
    Mutation(
        "UID precondition",
        "test_uid_precondition_spares_a_pod_that_took_the_plugins_name",
        (Replacement("kube/client.py", 'body={"preconditions": {"uid": uid}}', "body={}"),),
    ),
    Mutation(
        "wait for the resource",
        "test_wait_for_the_resource_keeps_a_node_out_until_it_offers_memory",
        (
            Replacement(
                "core/verify.py",
                "        if not node.allocatable.get(resource):\n",
                "        if False:\n",
            ),
        ),
    ),
    Mutation(
        "disbelief of a leftover",
        "test_a_value_left_over_from_the_old_plugin_is_not_believed",
        (
            Replacement(
                "core/verify.py", "if change.restart and serving and not was_zero:", "if False:"
            ),
        ),
    ),
    Mutation(
        "wait for the installer",
        "test_wait_for_the_installer_lets_no_pod_in_unisolated",
        (
            Replacement(
                "core/verify.py",
                "    for component in mode.components:\n",
                "    for component in ():\n",
            ),
        ),
    ),
    Mutation(
        "budget",
        "test_a_node_that_somebody_cordoned_counts_against_the_budget",
        (
            Replacement(
                "core/turn.py",
                "if progress.unavailable >= count_max_unavailable(rollout, progress.total):",
                "if False:",
            ),
        ),
        _ROLLOUT,
    ),
    Mutation(
        "canary",
        "test_canaries_that_succeed_let_the_others_begin",
        (
            Replacement(
                "core/turn.py",
                "if progress.proven < rollout.canary <= progress.proven + progress.changing:",
                "if False:",
            ),
        ),
        _ROLLOUT,
    ),
    Mutation(
        "halt",
        "test_a_canary_that_fails_halts_the_pool_until_somebody_resumes_it",
        (Replacement("core/turn.py", "    if progress.halted_by:\n", "    if False:\n"),),
        _ROLLOUT,
    ),
)


def build_mutated_source(mutation: Mutation, folder: Path) -> Path:
    """A copy of the operator's source without the step.

    Raises ValueError where a text is not there exactly once: the mutation must follow the code.
    """
    source = folder / "operator"
    shutil.copytree(
        PROJECT / "operator", source, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info")
    )
    for replacement in mutation.replacements:
        file = source / "gpushare" / replacement.file
        text = file.read_text()
        if (count := text.count(replacement.old)) != 1:
            raise ValueError(
                f"{mutation.step}: {replacement.file} holds {replacement.old!r} {count} times, "
                "expected once; bring tests/mutations.py up to date"
            )
        file.write_text(text.replace(replacement.old, replacement.new))
    return source


def run(mutation: Mutation) -> str:
    """Run the step's test against the operator without the step; what came of it."""
    with tempfile.TemporaryDirectory(prefix="gpushare-mutation-") as folder:
        source = build_mutated_source(mutation, Path(folder))
        done = subprocess.run(
            [
                *(sys.executable, "-m", "pytest", f"{mutation.file}::{mutation.test}"),
                *("-q", "-x", "-p", "no:randomly", "--tb=line", "--timeout=120"),
            ],
            cwd=PROJECT,
            env={**os.environ, SOURCE_VARIABLE: str(source)},
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
    lines = done.stdout.strip().splitlines() or [done.stderr.strip()]
    if done.returncode == 0:
        return "PASSED, though the step was out"
    if "failed" not in lines[-1] or "error" in lines[-1]:
        return f"did not run: {lines[-1]}"
    said = next((line for line in lines if line.startswith("/")), "")
    return f"{FAILED}: {said.partition(': ')[2][:_SHOWN]}"


def main(steps: Sequence[str]) -> int:
    """Run the mutations of these steps, or all; the exit status."""
    unknown = set(steps) - {mutation.step for mutation in MUTATIONS}
    if unknown:
        known = ", ".join(repr(mutation.step) for mutation in MUTATIONS)
        print(f"unknown: {', '.join(sorted(unknown))}; steps are {known}", file=sys.stderr)
        return 2
    chosen = [mutation for mutation in MUTATIONS if not steps or mutation.step in steps]
    results = []
    for mutation in chosen:
        results.append(run(mutation))
        print(f"{mutation.step:24} | {mutation.test} | {results[-1]}", flush=True)
    return 0 if all(result.startswith(FAILED) for result in results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
