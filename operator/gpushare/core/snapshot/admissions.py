"""Finds the mode under which each pod of a node was admitted, which decides its isolation.

The kubelet and the device plugin admit a pod once, and its containers keep what they got then, also
when they restart. No GPU pod outlives a boot: its kubelet admits it before the plugin is back, and
it fails (UnexpectedAdmissionError, seen on a kubelet 1.37). No time of either is looked at, since
clocks differ.
"""

from collections.abc import Mapping

from gpushare.api.pool import ModeName
from gpushare.core.records.change_record import Change, ChangePhase
from gpushare.core.snapshot.node import NodeSnapshot
from gpushare.core.snapshot.plugin_reading import IsBrief
from gpushare.editions.edition import Mode
from gpushare.editions.registry import get_mode

Admissions = Mapping[str, ModeName | None]
"""Mode of the node when it admitted each pod, by the pod's UID; None where it is not known."""


def find_admissions(seen: NodeSnapshot, is_brief: IsBrief | None = None) -> Admissions:
    """Find the mode under which each live pod on the node that holds GPUs was admitted.

    It is recorded before anything changes what later pods get. A foreign label that `is_brief` was
    read by nobody. A pod that holds what the mode in force does not offer met another one, which
    another manager's label had brought.
    """
    known, served = _read_records(seen, is_brief)
    pods = sorted((pod for pod in seen.pods if pod.is_live and pod.requests), key=lambda p: p.uid)
    met = {
        pod.uid: served.schedule if served is not None and served.resource in pod.requests else None
        for pod in pods
    }
    return {uid: known.get(uid, schedule) for uid, schedule in met.items()}


def write_admissions(admissions: Admissions) -> dict[str, object]:
    """Convert admissions to fields of a record: of `Change` and of `LastApplied`."""
    known = {uid: mode for uid, mode in admissions.items() if mode is not None}
    return {"before": tuple(admissions), "admitted": known or None}


def record_boot(seen: NodeSnapshot) -> dict[str, object]:
    """Return the current boot, and what is known of its pods, as fields of a `Change`."""
    return {"boot_id": seen.node.boot_id, **write_admissions(find_admissions(seen))}


def _read_records(seen: NodeSnapshot, is_brief: IsBrief | None) -> tuple[Admissions, Mode | None]:
    """Read the recorded modes of pods, and the mode under which all others were admitted."""
    change, reading = seen.records.change, seen.reading
    if change is not None and (change.is_labelled or change.boot_id is not None):
        if change.boot_id in ("", seen.node.boot_id):
            # Between labels and the plugin's return nobody knows which of two a new pod met.
            return change.admitted or {}, None
        return dict.fromkeys(change.before), _find_met_in_new_boot(seen, change)
    if reading is None:
        return {}, None
    applied = reading.applied
    # What a plugin that reads `share` gives beside a loaded module, nobody outside knows.
    is_hidden = seen.records.module and applied.mode.keeps_isolation
    served = None if is_hidden else reading.find_served(is_brief)
    # Of the boot before, they are dead, and only listed still.
    is_stale = applied.is_of_another_boot(seen.node)
    admitted = {} if is_stale or applied.admitted is None else applied.admitted
    mode = get_mode(applied.edition, served) if served is not None else None
    return {uid: admitted.get(uid) for uid in applied.before}, mode


def _find_met_in_new_boot(seen: NodeSnapshot, change: Change) -> Mode | None:
    """Find the mode of all pods admitted since the node booted in the middle of `change`."""
    if change.boot_id is None:
        return None
    is_torn_down = change.teardown is not None and change.phase is ChangePhase.RESTARTING
    to = change.mode
    is_beside_module = seen.records.module and to.keeps_isolation
    if not is_torn_down and (change.teardown is not None or is_beside_module):
        # The module may have outlived the reboot.
        return None
    labels = to.labels
    intact = labels.items() <= seen.node.labels.items() and labels.keys() <= seen.node.owned
    # Every plugin started in this boot, and read the labels that were there already.
    return to if change.is_labelled and intact else None
