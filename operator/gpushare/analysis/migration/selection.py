"""Rewrites a pod's selection of nodes from an older edition's labels to the Professional edition's.

`gpushare=true` becomes `ack.node.gpu.schedule=share` and `cgpu=true` becomes `=cgpu`, as the
vendor's own migration maps them ("Upgrade cGPU Basic Edition to cGPU Professional Edition").
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from gpushare import names
from gpushare.analysis.migration.finding import Migrated, MigrationCode, MigrationFinding
from gpushare.api.pool import Schedule
from gpushare.editions.registry import EDITIONS, OLD_MODE_LABELS

Json = dict[str, Any]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_TRUE, _WHOLE = "true", str(Schedule.DEFAULT)
_AVOIDED = {
    each.switch: sorted(str(m.schedule) for m in each.modes if m.labels[each.switch] == _TRUE)
    for each in EDITIONS.values()
    if each.successor
}
"""The modes of those nodes that have the label with the value `true`."""


class _UntranslatableError(Exception):
    """A selection has no counterpart; the message says why."""

    def __init__(self, message: str, code: MigrationCode = MigrationCode.SELECTION_UNCLEAR) -> None:
        super().__init__(message)
        self.code = code


@dataclass(slots=True)
class Translation:
    """Rewrites one pod's selection.

    A pod that is to share can't stay on whole cards: a node selector for them is taken out, so
    that a pool is chosen for it. An affinity for them is a finding (`WHOLE_CARD_AFFINITY`), since
    without that term it would say something else.
    """

    is_to_share: bool
    unisolated: Schedule
    """Mode that nodes with `cgpu.disable.isolation=true` get."""
    begins_to_isolate: bool = False
    """Such nodes were asked for, and become isolating ones."""

    def rewrite(self, spec: Json) -> Migrated:
        """Rewrite `spec`, of the API's shape, with findings on what could not be rewritten."""
        findings = []
        found = dict(spec)
        rewriters = {"nodeSelector": self._rewrite_selector, "affinity": self._rewrite_affinity}
        for part, rewrite in rewriters.items():
            try:
                if spec.get(part):
                    found[part] = rewrite(spec[part])
            except _UntranslatableError as error:
                findings.append(MigrationFinding(error.code, f"{part} is not changed: {error}"))
        if spec.get("nodeSelector") and not found["nodeSelector"]:
            del found["nodeSelector"]
        if self.begins_to_isolate and found != spec:
            message = (
                "The pod selects nodes with isolation off, which the vendor's migration makes "
                "cgpu. If yours become share, use --unisolated share"
            )
            findings.insert(0, MigrationFinding(MigrationCode.ISOLATION_BEGINS, message))
        return Migrated(found, tuple(findings))

    def _rewrite_selector(self, selector: Json) -> Json:
        asked = {key: (value,) for key, value in selector.items() if key in names.MODE_LABELS}
        modes = self._translate(asked, is_to_share=self.is_to_share)
        if modes is None:
            return selector
        found = {}
        for key, value in selector.items():
            if key not in asked:
                found[key] = value
            elif modes:
                found[names.LABEL_SCHEDULE] = modes[0]
        return found

    def _rewrite_affinity(self, affinity: Json) -> Json:
        nodes = dict(affinity.get("nodeAffinity") or {})
        if required := nodes.get(REQUIRED):
            terms = [
                self._rewrite_term(term, is_to_share=self.is_to_share)
                for term in required.get("nodeSelectorTerms") or ()
            ]
            nodes[REQUIRED] = required | {"nodeSelectorTerms": terms}
        # What is only preferred does no harm where no node has it.
        if preferred := nodes.get(PREFERRED):
            nodes[PREFERRED] = [
                each
                | {
                    "preference": self._rewrite_term(
                        each.get("preference") or {}, is_to_share=False
                    )
                }
                for each in preferred
            ]
        return affinity | {"nodeAffinity": nodes} if nodes else affinity

    def _rewrite_term(self, term: Json, *, is_to_share: bool) -> Json:
        expressions = term.get("matchExpressions") or []
        chosen = [each for each in expressions if _chooses_mode(each)]
        asked = {each["key"]: tuple(each.get("values") or ()) for each in chosen}
        if len(asked) < len(chosen):
            raise _UntranslatableError("a term has two requirements on one label")
        modes = self._translate(asked, is_to_share=is_to_share)
        if modes is not None and not modes:
            message = "it requires nodes with whole cards. Remove that requirement"
            raise _UntranslatableError(message, MigrationCode.WHOLE_CARD_AFFINITY)
        rewritten = []
        for each in expressions:
            if modes is None or not _chooses_mode(each):
                rewritten.append(_rewrite_other(each))
            elif each is chosen[0]:
                rewritten.append(each | {"key": names.LABEL_SCHEDULE, "values": list(modes)})
        return term | {"matchExpressions": rewritten} if expressions else term

    def _translate(
        self, asked: Mapping[str, Sequence[str]], *, is_to_share: bool
    ) -> Sequence[str] | None:
        """Translate the accepted values of each label to modes; None where they may stay as they
        are."""
        if not asked or (not is_to_share and asked.keys().isdisjoint(OLD_MODE_LABELS)):
            return None
        labels = (dict(zip(asked, each, strict=True)) for each in product(*asked.values()))
        modes = list(dict.fromkeys(map(self._find_mode, labels)))
        left = [mode for mode in modes if not (is_to_share and mode == _WHOLE)]
        stays = asked.keys() == {names.LABEL_SCHEDULE} and left == modes
        return None if stays else left

    def _find_mode(self, labels: Mapping[str, str]) -> str:
        """Find the mode that a node with these labels migrates to."""
        shown = ", ".join(f"{key}={value}" for key, value in labels.items())
        found = {labels[names.LABEL_SCHEDULE]} if names.LABEL_SCHEDULE in labels else set()
        if any(labels.get(key, _TRUE) not in (_TRUE, "false") for key in OLD_MODE_LABELS):
            raise _UntranslatableError(f"{shown} has a value unknown to all editions")
        for each in EDITIONS.values():
            if each.successor and not each.labels.isdisjoint(labels):
                # The switch of isolation is on shared nodes only, and pods select by it alone.
                mode = each.find_schedule({each.switch: _TRUE, **labels})
                if mode == each.unisolated:
                    mode = self.unisolated
                    self.begins_to_isolate = mode is Schedule.CGPU
                found.add(str(mode))
        if len(found) > 1:
            raise _UntranslatableError(f"{shown} matches two modes ({' and '.join(sorted(found))})")
        return str(found.pop())


def _chooses_mode(expression: Json) -> bool:
    return expression.get("key") in names.MODE_LABELS and expression.get("operator") == "In"


def _rewrite_other(expression: Json) -> Json:
    key, values = expression.get("key"), expression.get("values")
    if key not in OLD_MODE_LABELS:
        return expression
    if expression.get("operator") != "NotIn" or values != [_TRUE] or key not in _AVOIDED:
        raise _UntranslatableError(f"its requirement on label {key} has no counterpart")
    return expression | {"key": names.LABEL_SCHEDULE, "values": list(_AVOIDED[key])}
