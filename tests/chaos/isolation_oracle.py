"""Whether anybody who watches the API server could tell what a container got; no I/O.

It shares nothing with the operator and knows no more of a node than its objects and when they were
seen. Between two looks anything may have happened in any order.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from devcluster import names
from tests.kit.values.manifests import Json

Values = tuple[str | None, ...]
Instance = tuple[str, str, int]
"""A plugin's process: the boot, the UID of its pod, and its restart count."""

_PLUGINS = frozenset({"gpushare-device-plugin-ds", "gpushare-core-device-plugin-ds"})
_INSTALLERS = frozenset({"cgpu-installer", "cgpu-core-installer"})
_READ = (names.SCHEDULE, names.CGPU, names.DISABLE_ISOLATION)
_FOREVER = float("inf")
_CLOCK_SECONDS = 1.0
"""managedFields tell whole seconds: what is written in the one in which an operator comes back may
have been there before it."""


@dataclass(frozen=True, slots=True)
class Span:
    """A time of which no more is known than that it began and ended within these."""

    begin: float
    end: float = _FOREVER

    def meets(self, other: "Span") -> bool:
        return self.begin <= other.end and other.begin <= self.end


@dataclass(frozen=True, slots=True)
class Labelled:
    """A node's mode labels, and when it had them."""

    values: Values
    span: Span
    is_foreign: bool = False
    """Somebody else than the operator wrote them."""


@dataclass(frozen=True, slots=True)
class Process:
    """A plugin's process: while it starts it reads the labels, and later wherever its kubelet
    restarts, which nobody sees."""

    starts: Span
    lives: Span
    recorded: float = _FOREVER
    """When the node's record was seen to name it."""


@dataclass
class Oracle:
    """What has been seen of one node.

    Labels that stood for `brief_seconds` at most, under an operator that looked on, were not read
    by a plugin that runs: a kubelet would have had to restart in just that time. What stood while
    no operator looked on can't be dated by whoever comes later, since managedFields tell of the
    last write alone: nobody can tell which pods the plugin admitted before that, nor whether
    another value brought an installer. What the operator had no time to write down before somebody
    else's write is lost to it: it keeps what it knows on the node alone.
    """

    brief_seconds: float
    _labelled: list[Labelled] = field(default_factory=list)
    _processes: dict[Instance, Process] = field(default_factory=dict)
    _admitted: dict[str, Span] = field(default_factory=dict)
    _bound_before: dict[str, float] = field(default_factory=dict)
    _unwatched: list[Span] = field(default_factory=list)
    _has_module: bool = False
    _boot: str = ""
    _before: float = 0.0
    """When the look before began."""

    def see(self, node: Json, pods: Iterable[Json], look: Span, *, is_watched: bool = True) -> None:
        """Take in how the node was at some time in `look`, as were its pods. `is_watched` says
        whether there was an operator then."""
        since = self._before if self._labelled else look.begin
        if not is_watched:
            self._unwatched.append(Span(since, look.end + _CLOCK_SECONDS))
        self.see_labels(node, Span(since, look.end))
        self._see_boot(node)
        seen = set()
        for pod in pods:
            uid = pod["metadata"]["uid"]
            owner = pod["metadata"].get("ownerReferences", [{}])[0].get("name")
            self._has_module = self._has_module or owner in _INSTALLERS
            if owner in _PLUGINS:
                seen.add(self._see_plugin(pod, since, look.end))
            elif uid not in self._admitted:
                before = self._bound_before.setdefault(uid, since)
                if pod["status"].get("phase") == "Running":
                    self._admitted[uid] = Span(before, look.end)
        for instance, process in self._processes.items():
            if instance not in seen and process.lives.end == _FOREVER:
                lives = Span(process.lives.begin, look.end)
                self._processes[instance] = replace(process, lives=lives)
        self._see_record(node, look.end)
        self._before = look.begin

    def see_labels(self, node: Json, moment: Span, *, is_foreign: bool = False) -> None:
        """Take in which labels the node had at some time in `moment`."""
        values = tuple(node["metadata"]["labels"].get(key) for key in _READ)
        if self._labelled and self._labelled[-1].values == values:
            return
        if self._labelled:
            last = self._labelled[-1]
            self._labelled[-1] = replace(last, span=Span(last.span.begin, moment.end))
        self._labelled.append(Labelled(values, Span(moment.begin), is_foreign))

    def can_tell(self, pod: Json, container: str) -> bool:
        """Whether all that its plugin may have read comes to the same for a container."""
        spec = next(one for one in pod["spec"]["containers"] if one["name"] == container)
        env = {item["name"]: item.get("value") for item in spec.get("env") or ()}
        if env.get(names.CGPU_DISABLE) in ("true", "1") and self._is_basic:
            # Elsewhere there is a mode that does not read it.
            return True
        admitted = self._admitted.get(pod["metadata"]["uid"])
        if admitted is None:
            return False
        outcomes = {self._find_outcome(values) for values in self._find_readings(admitted)}
        return len(outcomes) == 1 and None not in outcomes

    def _see_boot(self, node: Json) -> None:
        boot = node["status"]["nodeInfo"]["bootID"]
        if boot == self._boot:
            return
        self._boot = boot
        if names.UNINSTALL in node["metadata"]["annotations"]:
            self._has_module = False
            self._labelled = [replace(labelled, is_foreign=False) for labelled in self._labelled]

    def _see_plugin(self, pod: Json, since: float, now: float) -> Instance:
        shown = pod["status"].get("containerStatuses") or [{}]
        instance = (self._boot, pod["metadata"]["uid"], shown[0].get("restartCount", 0))
        known = self._processes.get(instance)
        if known is None:
            known = Process(Span(since), Span(since))
        if known.starts.end == _FOREVER and shown[0].get("ready"):
            known = replace(known, starts=Span(known.starts.begin, now))
        self._processes[instance] = known
        return instance

    def _see_record(self, node: Json, now: float) -> None:
        applied = json.loads(node["metadata"]["annotations"].get("gpushare.io/applied", "{}"))
        for uid, restarts in applied.get("plugins", {}).items():
            instance = (applied.get("bootID", ""), uid, restarts)
            process = self._processes.get(instance)
            if process is not None and process.recorded == _FOREVER:
                self._processes[instance] = replace(process, recorded=now)

    def _find_readings(self, admitted: Span) -> Iterator[Values]:
        for process in self._processes.values():
            if not process.lives.meets(admitted):
                continue
            runs = Span(process.starts.begin, admitted.end + self.brief_seconds)
            for labelled in self._labelled:
                span = labelled.span
                is_read = span.meets(runs) and not self._is_brief(span)
                is_read = is_read or span.meets(process.starts)
                is_lost = labelled.is_foreign and process.recorded >= span.begin
                is_lost = is_lost or self._is_unwatched(span)
                if is_read or (is_lost and span.meets(process.lives)):
                    yield labelled.values

    def _is_brief(self, span: Span) -> bool:
        return span.end - span.begin <= self.brief_seconds

    def _is_unwatched(self, span: Span) -> bool:
        return any(span.meets(gap) for gap in self._unwatched)

    @property
    def _may_have_module(self) -> bool:
        """Whether an installer came, or may have: before a foreign value, there may be others."""
        foreign = [labelled.span for labelled in self._labelled if labelled.is_foreign]
        return self._has_module or any(
            self._is_unwatched(span) or not self._is_brief(span) for span in foreign
        )

    @property
    def _is_basic(self) -> bool:
        return all(labelled.values[0] is None for labelled in self._labelled)

    def _find_outcome(self, values: Values) -> bool | None:
        """Whether a plugin that read these has containers isolated; None where nobody knows."""
        schedule, cgpu, disabled = values
        if schedule == "share":
            # What it gives beside a loaded module nobody outside the vendor knows.
            return None if self._may_have_module else False
        if schedule is not None:
            return schedule in ("cgpu", "core_mem")
        return cgpu == "true" and disabled != "true"
