"""What could be told of a container by anybody who watched its node."""

import json
from typing import Any

import pytest

from devcluster import names
from tests.chaos.isolation_oracle import Oracle, Span
from tests.kit.values.manifests import Json, build_pod

ISOLATING, SHARING = {"cgpu.disable.isolation": "false"}, {"cgpu.disable.isolation": "true"}


class Watch:
    """A node that is looked at every second."""

    def __init__(self, labels: dict[str, str]) -> None:
        self.labels = labels
        self.boot = "first"
        self.plugin = ("plugin", 0)
        self.annotations: dict[str, str] = {}
        self.owners = ["gpushare-device-plugin-ds"]
        self.pods: list[Json] = []
        self.oracle = Oracle(brief_seconds=3)
        self.is_watched = True
        self._now = 0.0

    def pass_by(self, seconds: int = 5) -> None:
        for _ in range(seconds):
            self._now += 1
            self.oracle.see(
                self._build_node(),
                self._build_pods(),
                Span(self._now, self._now),
                is_watched=self.is_watched,
            )

    def write_briefly(self, labels: dict[str, str]) -> None:
        """Write labels that are put back before the next look."""
        kept, self.labels = self.labels, labels
        moment = Span(self._now + 0.1, self._now + 0.2)
        self.oracle.see_labels(self._build_node(), moment, is_foreign=True)
        self.labels = kept

    def admit(self, name: str, **spec: Any) -> Json:
        """Let a pod come and run, between two looks."""
        pod = build_pod(name, **spec)
        pod["metadata"]["uid"] = f"uid-of-{name}"
        pod = {**pod, "status": {"phase": "Running"}}
        self.pods.append(pod)
        self.pass_by(1)
        return pod

    def can_tell(self, pod: Json) -> bool:
        return self.oracle.can_tell(pod, "main")

    def _build_node(self) -> Json:
        labels = self.labels if names.SCHEDULE in self.labels else {"cgpu": "true", **self.labels}
        return {
            "metadata": {"labels": labels, "annotations": self.annotations},
            "status": {"nodeInfo": {"bootID": self.boot}},
        }

    def _build_pods(self) -> list[Json]:
        uid, restarts = self.plugin
        status = {"containerStatuses": [{"ready": True, "restartCount": restarts}]}
        components = [
            {"metadata": {"uid": f"{owner}-{uid}", "ownerReferences": [{"name": owner}]}}
            | {"status": status}
            for owner in self.owners
        ]
        return [*components, *self.pods]


@pytest.mark.parametrize("after", ["while it stands", "once it is gone"])
def test_after_a_value_that_stood_long_nobody_can_tell_until_the_plugin_is_another(
    after: str,
) -> None:
    watch = Watch(ISOLATING)
    watch.pass_by()
    before = watch.admit("before")
    watch.pass_by()
    just_before = watch.admit("just-before")
    watch.labels = SHARING
    watch.pass_by()
    if after == "once it is gone":
        watch.labels = ISOLATING
        watch.pass_by()
    unsure_pod = watch.admit("doubtful")
    watch.labels = ISOLATING
    watch.pass_by()
    watch.plugin = ("another", 0)
    watch.pass_by()
    known = watch.admit("known")
    pods = (before, just_before, unsure_pod, known)
    assert [watch.can_tell(pod) for pod in pods] == [True, False, False, True]


@pytest.mark.parametrize("is_watched", [True, False])
def test_a_value_that_stood_briefly_was_read_by_nobody_where_an_operator_looked_on(
    is_watched: bool,
) -> None:
    watch = Watch(ISOLATING)
    watch.pass_by()
    watch.labels, watch.is_watched = SHARING, is_watched
    watch.pass_by(1)
    watch.labels, watch.is_watched = ISOLATING, True
    watch.pass_by(1)
    assert watch.can_tell(watch.admit("a")) is is_watched


@pytest.mark.parametrize("removed", [False, True])
def test_what_share_gives_beside_a_module_nobody_can_tell(removed: bool) -> None:
    watch = Watch({names.SCHEDULE: "share"})
    watch.owners.append("cgpu-installer")
    watch.pass_by()
    watch.owners.pop()
    watch.pass_by()
    if removed:
        watch.annotations[names.UNINSTALL] = "true"
    watch.boot = "second"
    watch.pass_by()
    assert watch.can_tell(watch.admit("a")) is removed


RECORDED = {"bootID": "first", "plugins": {"gpushare-device-plugin-ds-plugin": 0}}
"""That plugin was applied in this boot."""


@pytest.mark.parametrize(
    ("labels", "foreign", "applied", "can_tell"),
    [
        ({names.SCHEDULE: "share"}, {names.SCHEDULE: "default"}, None, True),
        (ISOLATING, SHARING, None, False),
        (ISOLATING, SHARING, RECORDED, True),
    ],
    ids=["no label of isolation", "unrecorded", "recorded"],
)
def test_of_what_stood_before_a_foreign_label_only_what_was_recorded_can_be_told(
    labels: dict[str, str], foreign: dict[str, str], applied: Json | None, can_tell: bool
) -> None:
    watch = Watch(labels)
    if applied:
        watch.annotations["gpushare.io/applied"] = json.dumps(applied)
    watch.pass_by()
    watch.write_briefly(foreign)
    watch.pass_by()
    assert watch.can_tell(watch.admit("a")) is can_tell
