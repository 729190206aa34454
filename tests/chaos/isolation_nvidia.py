"""The history of a node that comes from Professional's `cgpu` to NVIDIA's plugin.

Of what that plugin gives the operator claims nothing: cGPU, which it vouches for, has no part in
it.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from devcluster import names
from devcluster.nvidia import load_nvidia
from gpushare.api.nvidia_plugin import NvidiaConfig
from gpushare.api.pool import Edition, Schedule
from tests.chaos.isolation_history import History, Until
from tests.chaos.isolation_script import CONFIG_MODES, Event
from tests.kit.bench import GPU_MEM, MODE, VERIFIED
from tests.kit.cluster.nvidia_stack import CONFIGS, STACK_PODS, build_nvidia_pool
from tests.kit.values.manifests import build_pool

_TEXTS = next(item["data"] for item in load_nvidia() if item["kind"] == "ConfigMap")
_CONTENTS = {
    "time-slicing=4": _TEXTS["slices-4"],
    "time-slicing=8": _TEXTS["slices-8"],
}
"""Of a key that is edited: they offer the same resource. It is not the default one, so that no node
could share by MPS with it."""
_RESTS_BEFORE_EDIT = 0.7
_OTHER_EDITION = {MODE: "cgpu"}
_DRIFTS = ({VERIFIED: "true"}, _OTHER_EDITION)
_STANDS_SECONDS = 4.0
"""So long a label of another edition stands, and its plugin shares the cards."""


@dataclass
class ConfigHistory(History):
    """Its first steps are in a pool of Professional."""

    _content: str = ""
    """What its own key has."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.mode = self.wanted = Schedule.CGPU
        self._script.insert(self._chance.randrange(1, len(self._script)), Event.EDIT)
        self._user.plugins = STACK_PODS

    def begin(self) -> None:
        policy = self._chance.choice(("Retain", "WholeCard", "Restore"))
        self._note(f"pool {self.mode}, {policy}")
        nodes = {"names": [self.name]}
        self.bench.create_pool(
            build_pool(self.name, schedule=str(self.mode), nodes=nodes, deletionPolicy=policy)
        )

    def _play(self) -> Iterator[Until]:
        yield self._rest()
        yield from self._start_pod()
        yield self._rest()
        yield from self._move()
        yield from super()._play()

    def _move(self) -> Iterator[Until]:
        self.bench.delete_pool(self.name)
        if self._chance.random() < 0.5:
            yield from self._end_pods()
        yield Until("the pool is gone", lambda: self.name not in self.member.sight.pools)
        self._user.write_labels({MODE: None, names.GPU_PRESENT: "true"})
        self.member = replace(self.member, edition=Edition.NVIDIA)
        config = self._chance.choice(CONFIG_MODES)
        self.mode = self.wanted = config
        self.bench.create_pool(
            build_nvidia_pool(
                config.key,
                name=self.name,
                nodes={"names": [self.name]},
                nvidia={"onConfigChange": "RollOut"},
            )
        )
        self._happened(Event.MOVE, f"to {self.mode}")

    def _edit(self) -> Iterator[Until]:
        """Of a key that no other node has."""
        yield from self._finish_change()
        self._write_own_key()
        self.wanted = NvidiaConfig(self.name)
        self._change_pool()
        if self._chance.random() < _RESTS_BEFORE_EDIT:
            yield from self._finish_change()
            yield self._rest()
        self._happened(Event.EDIT, self._write_own_key())

    def _write_own_key(self) -> str:
        self._content = self._chance.choice([c for c in _CONTENTS if c != self._content])
        self.bench.call("PATCH", CONFIGS, {"data": {self.name: _CONTENTS[self._content]}})
        return self._content

    def _drift(self) -> Iterator[Until]:
        if self._chance.random() < 0.5:
            yield from super()._drift()
            return
        # A plugin that lost its cards is restarted by hand only where no change is under way.
        yield from self._finish_change()
        labels = self._chance.choice(_DRIFTS)
        self._user.write_labels(labels)
        self._happened(Event.DRIFT, str(labels))
        if labels is _OTHER_EDITION:
            name = f"{self.name}-other"
            self._user.create_pod(name, self._chance, GPU_MEM)
            yield self._after(time.monotonic() + _STANDS_SECONDS)
            self._delete_pod(name)
            self._user.write_labels({MODE: None})
        yield self._rest()

    def _rest_labels(self) -> Until:
        if self.edition is Edition.NVIDIA:
            # Beside pods a label stays another's, and its plugin has followed it already.
            return Until("a look", lambda: True)
        return super()._rest_labels()

    def _rests(self) -> bool:
        is_on_its_way = self.mode != self.wanted or self.edition is not Edition.NVIDIA
        return super()._rests() and (is_on_its_way or self._is_loaded())

    def _is_loaded(self) -> bool:
        """Whether the plugin has loaded what is recorded of the mode in force, and no edited
        content is still to be rolled out."""
        config = self.member.mode.schedule
        if not isinstance(config, NvidiaConfig):
            return False
        (plugin,) = self.member.plugins(self.mode)
        read = json.loads(plugin["metadata"]["annotations"][names.READ])["config"]
        loaded = [read[each] for each in ("key", "strategy", "replicas", "renamed")]
        recorded = [config.key, config.strategy, config.replicas, config.renamed]
        is_last = config.key != self.name or f"{config.strategy}={config.replicas}" == self._content
        return is_last and loaded == recorded

    _STEPS: ClassVar[Mapping[Event, Callable[[Any], Iterator[Until]]]] = {
        **History._STEPS,
        Event.DRIFT: _drift,
        Event.EDIT: _edit,
    }
