"""Reads workloads as they are typed: KIND/NAME, as kubectl takes them."""

from typing import NamedTuple

import typer

from gpushare.cli.input.object_names import check_name

_SHORT_KINDS = {
    "deploy": "deployment",
    "sts": "statefulset",
    "ds": "daemonset",
    "rs": "replicaset",
    "cj": "cronjob",
    "po": "pod",
    "js": "jobset",
    "lws": "leaderworkerset",
    "isvc": "inferenceservice",
    "vcjob": "job",
    "wf": "workflow",
    "cwf": "cronworkflow",
}
_MORE_KINDS = {"replicasets": "replicaset", "pods": "pod"}


class NamedWorkload(NamedTuple):
    """A workload; its kind is in lower case, and singular if it is a known one."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"


def parse_workload(text: str) -> NamedWorkload | None:
    """Parse KIND/NAME, such as deployment/trainer or sts/db; None without one. Raises
    `BadParameter`."""
    if not text:
        return None
    kind, _, name = text.partition("/")
    if not (kind and name):
        message = f"{text!r} is no workload such as deployment/trainer"
        raise typer.BadParameter(message, param_hint="KIND/NAME")
    # Not at the start of each command: it takes pydantic.
    from gpushare.workload_kinds import WORKLOAD_KINDS

    plurals = {each.resource: each.kind.lower() for each in WORKLOAD_KINDS} | _MORE_KINDS
    # As in deployments.apps/trainer.
    lower = kind.lower().partition(".")[0]
    return NamedWorkload((_SHORT_KINDS | plurals).get(lower, lower), check_name(name))
