"""Many histories side by side on one cluster, compared with the claims at every look."""

import json
import random
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from devcluster.editions import Edition
from gpushare.api import pool
from tests.chaos.isolation_crashes import SETTINGS, Crashes
from tests.chaos.isolation_history import History
from tests.chaos.isolation_judge import Finding, Tally, Verdict, judge_node
from tests.chaos.isolation_member import Member, NodeView, Sight
from tests.chaos.isolation_script import Event
from tests.kit.bench import Bench

_POLL_SECONDS = 0.1
_CRASHES = 11
"""Of 20 histories so many bring a crash; the others of the wave have it with them."""


@dataclass
class Stage:
    """Where histories are played, in waves."""

    bench: Bench
    make: type[History] = History
    settings: Mapping[str, str] = field(default_factory=lambda: SETTINGS)
    """Of the operator."""
    cards: int = 1
    """Of each node."""
    tally: Tally = field(default_factory=Tally)
    events: Counter[Event] = field(default_factory=Counter)
    histories: int = 0
    untold: list[str] = field(default_factory=list)
    """The histories in which the operator did not know something that could be told."""
    _judged: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """By node, what was compared last."""

    def play(self, edition: Edition, seeds: Sequence[int]) -> None:
        """One wave: each seed's history on a node of its own.

        Raises AssertionError with the history of the first node of which something wrong is
        claimed, or that does not come to rest.
        """
        self.bench.install(edition)
        sight = Sight(self.bench)
        crashes = Crashes(self.bench, random.Random(seeds[0]), self.settings)
        histories = [
            self.make(
                self.bench,
                Member(sight, f"h{seed:03d}", pool.Edition(edition)),
                crashes,
                seed,
                crashes_itself=seed % 20 < _CRASHES,
            )
            for seed in seeds
        ]
        self.bench.add_nodes(*(history.name for history in histories), cards=self.cards)
        crashes.start()
        for history in histories:
            history.begin()
        going = list(histories)
        while going:
            sight.look()
            for history in histories:
                view = history.member.view
                history.oracle.see(view.node, view.pods, sight.span, is_watched=crashes.is_ready)
                self._compare(history)
            going = [history for history in going if _advance(history)]
            crashes.advance()
            time.sleep(_POLL_SECONDS)
        for history in histories:
            self.events += history.events
            if history.untold:
                self.untold += [f"{history.name}, {edition}:", *history.log]
        self.histories += len(histories)
        self.bench.clear()

    @property
    def unknown_share(self) -> float:
        """Of all containers, those of which nothing was claimed for a while."""
        return self.tally.count()[Verdict.UNKNOWN] / max(1, self.tally.containers)

    def find_rare(self, events: Iterable[Event], least: int) -> dict[Event, int]:
        """Those that happened fewer times."""
        return {event: self.events[event] for event in events if self.events[event] < least}

    def describe(self) -> str:
        """The figures, in one line."""
        count = self.tally.count()
        return (
            f"isolation-truth histories={self.histories} containers={self.tally.containers} "
            f"agreed={count[Verdict.AGREED]} unknown={count[Verdict.UNKNOWN]} "
            f"({count[Verdict.UNKNOWN] / max(1, self.tally.containers):.1%}) "
            f"silent={count[Verdict.SILENT]} "
            f"untold={count[Verdict.UNTOLD]} wrong={count[Verdict.WRONG]} "
            + " ".join(f"{event.replace(' ', '-')}={self.events[event]}" for event in Event)
        )

    def _compare(self, history: History) -> None:
        view = history.member.view
        if not view.is_one_moment or self._judged.get(history.name) == view.version:
            return
        findings = judge_node(view.node, view.pods, can_tell=history.oracle.can_tell)
        if findings is None:
            return
        self._judged[history.name] = view.version
        self.tally.note(findings)
        for finding in findings:
            if finding.verdict is Verdict.UNTOLD:
                history.note_untold(finding)
        wrong = [finding for finding in findings if finding.verdict is Verdict.WRONG]
        assert not wrong, describe(history, wrong)


def _advance(history: History) -> bool:
    try:
        return history.advance()
    except AssertionError as error:
        raise AssertionError(f"{error}\n{describe(history, ())}") from error


def describe(history: History, wrong: Sequence[Finding]) -> str:
    """What happened on the node, and what stands there."""
    view = history.member.view
    return "\n".join(
        (
            f"{history.name}, {history.edition}, seed {history.seed}, pool {history.wanted}:",
            *(f"  {finding}" for finding in wrong),
            *history.log,
            *_describe_view(view),
        )
    )


def _describe_view(view: NodeView) -> list[str]:
    meta, boot = view.node["metadata"], view.node["status"]["nodeInfo"]["bootID"]
    lines = [f"node {meta['name']} boot {boot} {json.dumps(meta['labels'])}"]
    lines += [f"  {key}: {value}" for key, value in sorted(meta["annotations"].items())]
    for pod in view.pods:
        meta, status = pod["metadata"], pod["status"]
        restarts = [c.get("restartCount") for c in status.get("containerStatuses") or ()]
        said = f"{status.get('phase')} {restarts} {json.dumps(meta.get('annotations'))}"
        lines.append(f"pod {meta['name']} {meta['uid']} {said}")
    return lines
