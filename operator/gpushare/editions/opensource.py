"""The OpenSource edition: gpushare-device-plugin and gpushare-scheduler-extender."""

from gpushare import names
from gpushare.api.pool import Edition, Schedule
from gpushare.editions.edition import GPUSHARE_PLUGIN, EditionDescription, Mode, Outcome, Transition

_EDITION, _LABEL = Edition.OPEN_SOURCE, names.LABEL_GPUSHARE
_WHOLE, _SHARE = Schedule.DEFAULT, Schedule.SHARE

OPEN_SOURCE = EditionDescription(
    edition=_EDITION,
    switch=_LABEL,
    find_schedule=lambda labels: _SHARE if labels.get(_LABEL) == "true" else _WHOLE,
    modes=(
        # The whole-card plugin is an installation of its own, which may be missing: cards are not
        # awaited (see `findings.find_missing_whole_card`).
        Mode(_EDITION, _WHOLE, {_LABEL: "false"}),
        Mode(_EDITION, _SHARE, {_LABEL: "true"}, names.RESOURCE_GPU_MEMORY, GPUSHARE_PLUGIN),
    ),
    needs={
        "open-switch": Transition(
            Outcome.APPLY,
            "The plugin follows the label gpushare; a whole-card plugin that the chart manages is "
            "evicted or restored",
            "open-source gpushare-device-plugin and its chart",
        )
    },
    matrix="""
        of        default       share
        default   -             open-switch
        share     open-switch   -
    """,
    installed_by="docs/opensource.md",
    successor=Edition.PROFESSIONAL,
    removal="Remove open-source gpushare: its device plugin, its scheduler extender, and the "
    "extender from kube-scheduler's configuration.",
)
