"""One node with a pool of its own, and what happens to it, one thing after the other."""

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from devcluster import names
from devcluster.nodes import reboot_node, restart_kubelet
from gpushare.api.pool import Edition, ModeName, Schedule
from gpushare.editions.registry import INSTALLERS
from tests.chaos.isolation_crashes import BRIEF_SECONDS, Crashes
from tests.chaos.isolation_judge import Finding, is_running
from tests.chaos.isolation_member import Member
from tests.chaos.isolation_oracle import Oracle
from tests.chaos.isolation_script import (
    ON_SHARED_CARDS,
    Event,
    build_spec,
    choose_drift,
    choose_foreign,
    choose_mode,
    find_change,
    is_spared,
    swaps_plugin,
    write_script,
)
from tests.chaos.isolation_user import User
from tests.kit.bench import NODES, Bench
from tests.kit.values.manifests import build_pool

TEARDOWN = "gpushare.io/teardown"
MODULE = "gpushare.io/module"
_ALL_CRASHES_SECONDS = 600.0
_MOST_PODS = 6
_ENDS = 0.1
"""So often a pod ends before another starts, also where there are fewer."""
_MEANWHILE = 2
"""At most so many steps follow the wish for another mode before pods make way for it."""
_PATIENCE = 0.7
"""So often a history waits until its node is at rest before the next thing happens."""
_CARE = 0.97
"""So often drift hits a node whose plugin is recorded, and nothing else happens before it is put
back: where a plugin may have read a foreign value, nobody knows what pods were admitted under."""
_STUCK_SECONDS = 4.0
"""So long somebody waits for a plugin to register before they restart it."""
_READS = 0.8
"""So often a plugin reads the foreign value that stands."""
_JOINS = 0.7
"""So often a pod comes then."""
_PUTS_BACK = 0.2
"""So often whoever wrote it puts it back before the operator is back."""


@dataclass(frozen=True, slots=True)
class Until:
    sentence: str
    holds: Callable[[], bool]
    seconds: float = 300.0


@dataclass
class History:
    """The history of one node, from a seed."""

    bench: Bench
    member: Member
    crashes: Crashes
    seed: int
    crashes_itself: bool
    events: Counter[Event] = field(default_factory=Counter)
    log: list[str] = field(default_factory=list)
    untold: list[str] = field(default_factory=list)
    mode: ModeName = field(init=False)
    """The mode that the node is in, as far as the history brought it there."""
    wanted: ModeName = field(init=False)
    """What its pool says."""
    _meanwhile: int = 0
    _next_pod: int = 0
    _started: float = field(default_factory=time.monotonic)
    _waits: Until | None = None
    _since: float = 0.0
    _helped: float = 0.0

    def __post_init__(self) -> None:
        self._chance = random.Random(self.seed)
        first = (Schedule.SHARE, Schedule.CGPU)
        self.mode = self.wanted = self._chance.choice(first)
        self._script = write_script(self._chance, crashes=self.crashes_itself)
        self._course = self._play()
        self.oracle = Oracle(BRIEF_SECONDS)
        self._user = User(self.bench, self.name, self.oracle)

    def begin(self) -> None:
        """Create the pool; the node is there."""
        self._note(f"pool {self.mode}")
        pool = build_pool(
            self.name, edition=self.edition, schedule=str(self.mode), nodes={"names": [self.name]}
        )
        self.bench.create_pool(pool)

    def advance(self) -> bool:
        """Go on if what it waits for is so; whether there is more to come. Raises AssertionError
        where it was waited for too long."""
        self._bury_lost_pods()
        now = time.monotonic()
        if self._waits is not None and not self._waits.holds():
            assert now < self._since + self._waits.seconds, f"{self._waits.sentence}: never came"
            self._make_way()
            return True
        self._waits, self._since = next(self._course, None), now
        return self._waits is not None

    def note_untold(self, finding: Finding) -> None:
        if str(finding) not in self.untold:
            self.untold.append(str(finding))
            self._note(f"UNTOLD {finding}")

    @property
    def name(self) -> str:
        return self.member.name

    @property
    def edition(self) -> Edition:
        return self.member.edition

    # The course of things.

    def _play(self) -> Iterator[Until]:
        yield self._rest()
        for step in self._script:
            if step is Event.MODE_CHANGE:
                yield from self._finish_change()
            elif step in ON_SHARED_CARDS:
                yield from self._share_cards()
            yield from self._STEPS[step](self)
            # The next look comes after what was just done.
            yield Until("a look", lambda: True)
            if step is not Event.DRIFT and self._chance.random() < _PATIENCE:
                yield self._rest()
            if self._meanwhile == 0:
                yield from self._finish_change()
            self._meanwhile -= 1
        yield from self._finish_change()
        yield self._rest()
        yield Until("the pool says the same of its containers", lambda: self.member.is_told)

    def _start_pod(self) -> Iterator[Until]:
        pods = self.member.pods
        if len(pods) >= _MOST_PODS or (pods and self._chance.random() < _ENDS):
            self._delete_pod(self._chance.choice(pods)["metadata"]["name"])
        self._next_pod += 1
        name = f"{self.name}-{self._next_pod}"
        core = 5 if self.mode is Schedule.CORE_MEM else None
        self._user.create_pod(name, self._chance, self.member.resource, core=core)
        self._happened(Event.POD_START, name)
        yield from ()

    def _end_pods(self) -> Iterator[Until]:
        for pod in self.member.pods:
            self._delete_pod(pod["metadata"]["name"])
        yield Until("a look", lambda: True)

    def _restart_container(self) -> Iterator[Until]:
        running = [pod for pod in self.member.pods if is_running(pod)]
        if not running:
            yield from self._start_pod()
            yield self._rest()
            running = [pod for pod in self.member.pods if is_running(pod)]
        if running:
            name = self._chance.choice(running)["metadata"]["name"]
            self._user.restart_container(name)
            self._happened(Event.CONTAINER_RESTART, name)

    def _await_plugin(self) -> Iterator[Until]:
        if not self.member.plugins(self.mode):
            # It may have followed its pool to whole cards meanwhile. Nor is a plugin that runs
            # waited for: it may be about to.
            yield from self._finish_change()
            yield from self._share_cards()
            yield Until("a plugin runs", lambda: bool(self.member.plugins(self.mode)))

    def _restart_plugin(self) -> Iterator[Until]:
        yield from self._await_plugin()
        name = self._plugin
        if self._user.restart_plugin(name):
            self._happened(Event.PLUGIN_RESTART, name)

    def _restart_kubelet(self) -> Iterator[Until]:
        yield self._rest_labels()
        restart_kubelet(self.bench.cluster, self.name)
        self._happened(Event.KUBELET_RESTART, "")

    def _signal_plugin(self) -> Iterator[Until]:
        yield self._rest_labels()
        yield from self._await_plugin()
        if self._user.signal_plugin(self._plugin):
            self._happened(Event.PLUGIN_SIGNAL, "")

    def _let_stand(self) -> Iterator[Until]:
        """A foreign value stands, and a plugin reads it in most cases, while nobody looks."""
        yield from self._finish_change()
        yield from self._share_cards()
        if is_spared(self._chance, self.edition, self.mode):
            self.wanted = Schedule.CGPU
            self._change_pool()
            yield from self._finish_change()
        yield self._rest()
        labels = choose_foreign(self._chance, self.edition, self.mode)
        if not labels:
            return
        absence = self.crashes.ask_absence()
        yield Until("the operator is away", lambda: absence.is_met, _ALL_CRASHES_SECONDS)
        ours = {key: self.member.view.node["metadata"]["labels"].get(key) for key in labels}
        self._user.write_labels(labels)
        since = time.monotonic()
        self._happened(Event.FOREIGN_VALUE, str(labels))
        if self._chance.random() < _READS:
            if self._chance.random() < 0.5:
                restart_kubelet(self.bench.cluster, self.name)
                self._happened(Event.KUBELET_RESTART, "under it")
            else:
                yield Until("a plugin runs", lambda: bool(self.member.plugins(self.mode)))
                if self._user.signal_plugin(self._plugin):
                    self._happened(Event.PLUGIN_SIGNAL, "under it")
            yield self._after(since + 1)
        if self._chance.random() < _JOINS:
            yield from self._start_pod()
        # A managedFields entry tells the second, rounded down.
        yield self._after(since + BRIEF_SECONDS + 1)
        if self._chance.random() < _PUTS_BACK:
            self._user.write_labels(ours)
            self._note("is put back")
        absence.is_over = True
        yield Until("the operator is back", lambda: self.crashes.is_ready)
        yield self._rest()

    def _after(self, due: float) -> Until:
        return Until("time passes", lambda: time.monotonic() >= due)

    def _change_mode(self) -> Iterator[Until]:
        # From a mode that somebody else wrote another change might need a person.
        yield self._rest()
        of = self.mode
        has_module = MODULE in self.bench.node(self.name)["metadata"]["annotations"]
        self.wanted = choose_mode(self._chance, self.edition, of, has_module=has_module)
        self._meanwhile = self._chance.randint(0, _MEANWHILE)
        self._change_pool()
        self._happened(Event.MODE_CHANGE, f"{of} -> {self.wanted}")

    def _change_pool(self) -> None:
        spec = build_spec(self.wanted)
        self.bench.change_again(self.name, pool=self.name, **spec)

    def _finish_change(self) -> Iterator[Until]:
        if self.mode == self.wanted:
            return
        if not find_change(self.edition, self.mode, self.wanted).keeps_workloads:
            yield from self._end_pods()
        if self._needs_teardown():
            yield from self._tear_down()
        yield Until(f"{self.wanted} is in force", lambda: self.member.rests_in(self.wanted))
        self.mode = self.wanted
        self._note(f"is {self.mode}")

    def _needs_teardown(self) -> bool:
        """Whether the kernel module is in the way of sharing without isolation."""
        return self.wanted is Schedule.SHARE and self.member.has_module

    def _tear_down(self) -> Iterator[Until]:
        """What a person does where the pool's policy is Manual."""
        path = f"{NODES}/{self.name}"
        self._note("teardown begins")
        self.bench.annotate(path, {TEARDOWN: "start"})
        yield Until("the node is labelled", lambda: self.member.step == "Labelled")
        yield Until("no installer is left", lambda: not self.member.find_pods(INSTALLERS))
        self.bench.annotate(path, {names.UNINSTALL: "true"})
        yield from self._reboot()
        yield Until("the reboot is known", lambda: self.member.step == "Rebooted")
        self.bench.annotate(path, {TEARDOWN: "done"})

    def _drift(self) -> Iterator[Until]:
        labels = choose_drift(self._chance, self.edition, self.mode, self.wanted)
        if not labels:
            yield from self._finish_change()
            labels = choose_drift(self._chance, self.edition, self.mode, self.wanted)
        if swaps_plugin(self.edition, self.mode, labels) and self._chance.random() < _CARE:
            # Whoever takes the cards away has emptied the node before.
            yield from self._end_pods()
        if self._chance.random() < _CARE:
            yield Until("the plugin that runs is recorded", lambda: self.member.is_recorded)
        self._user.write_labels(labels)
        self._happened(Event.DRIFT, str(labels))
        if self._chance.random() < _CARE:
            yield Until("a look", lambda: True)
            if self.mode != self.wanted:
                # A value that the plugin may have read stays until pods make way.
                yield from self._finish_change()
            yield self._rest()
            if self.mode == self.wanted and self._needs_teardown():
                # It was isolated for a moment.
                yield from self._end_pods()
                yield from self._tear_down()

    def _reboot(self) -> Iterator[Until]:
        if is_down := self._chance.random() < 0.5:
            self.bench.set_faults(self.name, not_ready=True)
            yield Until("the node is not ready", lambda: not self.member.is_ready)
        reboot_node(self.bench.cluster, self.name)
        self._happened(Event.REBOOT, "after it was not ready" if is_down else "at once")
        if is_down:
            self.bench.set_faults(self.name)
            yield Until("the node is ready", lambda: self.member.is_ready)

    def _crash(self) -> Iterator[Until]:
        wish = self.crashes.ask()
        yield Until("the operator crashed", lambda: wish.is_met, _ALL_CRASHES_SECONDS)
        self._happened(Event.CRASH, "")
        if self._chance.random() < 0.5:
            yield Until("the operator is back", lambda: self.crashes.is_ready)

    _STEPS: ClassVar[Mapping[Event, Callable[[Any], Iterator[Until]]]] = {
        Event.POD_START: _start_pod,
        Event.CONTAINER_RESTART: _restart_container,
        Event.PLUGIN_RESTART: _restart_plugin,
        Event.PLUGIN_SIGNAL: _signal_plugin,
        Event.KUBELET_RESTART: _restart_kubelet,
        Event.FOREIGN_VALUE: _let_stand,
        Event.MODE_CHANGE: _change_mode,
        Event.DRIFT: _drift,
        Event.REBOOT: _reboot,
        Event.CRASH: _crash,
    }

    def _share_cards(self) -> Iterator[Until]:
        """Leave whole cards: nothing shares them there."""
        if self.mode != Schedule.DEFAULT:
            return
        yield from self._finish_change()
        while self.mode == Schedule.DEFAULT:
            yield from self._change_mode()
            yield from self._finish_change()

    # What it sees.

    def _rest(self) -> Until:
        return Until("the node is at rest", self._rests)

    def _rest_labels(self) -> Until:
        """The operator answers for what it puts back at once: nobody reads that meanwhile."""
        return Until("no label is another's", lambda: self.member.is_ours)

    def _rests(self) -> bool:
        if self.mode != self.wanted:
            # Labels and plugin may be of either mode, or of neither, while pods hold it up.
            return self.member.is_unchanging and self.member.is_settled(waiting=True)
        return self.member.rests_in(self.mode)

    # What it does.

    def _delete_pod(self, name: str) -> None:
        self._note(f"ends {name}")
        self._user.delete_pod(name)
        self.member.forget_pod(name)

    @property
    def _plugin(self) -> str:
        return str(self.member.plugins(self.mode)[0]["metadata"]["name"])

    def _make_way(self) -> None:
        """What a person does about a node that does not come to rest by itself."""
        reasons = self.member.reasons
        if self.mode != self.wanted:
            return
        if "RestartLimit" in reasons:
            self._change_pool()
        if "WorkloadsPresent" in reasons and self.member.pods:
            self._note("pods make way")
            for pod in self.member.pods:
                self._delete_pod(pod["metadata"]["name"])
        now = time.monotonic()
        is_stuck = "ResourceNotReady" in reasons and self.member.plugins(self.mode)
        if is_stuck and now > max(self._since, self._helped) + _STUCK_SECONDS:
            # Another plugin was there for a moment, registered, and took the cards with it.
            self._note("the plugin is restarted by hand")
            self._user.restart_plugin(self._plugin)
            self._helped = now
        word = self.member.view.node["metadata"]["annotations"].get(TEARDOWN)
        has_begun = word == "start" or not self.member.is_unchanging
        if "RequiresTeardown" in reasons and self.mode is not Schedule.CGPU and not has_begun:
            self._note("goes where it is without a teardown")
            self.mode = self.wanted = Schedule.CGPU
            self._change_pool()

    def _bury_lost_pods(self) -> None:
        """One that the kubelet refused stays Failed for good; its owner would replace it."""
        for pod in self.member.pods:
            if pod["status"].get("phase") == "Failed":
                self._note(f"{pod['metadata']['name']} was refused: {pod['status'].get('message')}")
                self._delete_pod(pod["metadata"]["name"])

    def _happened(self, event: Event, what: str) -> None:
        self.events[event] += 1
        self._note(f"{event} {what}".rstrip())

    def _note(self, what: str) -> None:
        self.log.append(f"{time.monotonic() - self._started:6.2f} {what}")
