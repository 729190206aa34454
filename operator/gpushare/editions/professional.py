"""The Professional edition: the chart ack-ai-installer (vendor's page on labels of GPU nodes)."""

from typing import Any

from gpushare import names
from gpushare.api.pool import Edition, Schedule
from gpushare.editions.edition import (
    GPUSHARE_PLUGIN,
    LABELS_PAGE,
    TEARDOWN,
    EditionDescription,
    Mode,
    Outcome,
    Transition,
)

TO_DEFAULT = f"kubectl label node NODE {names.LABEL_SCHEDULE}={Schedule.DEFAULT} --overwrite"
_DRA_GUIDE = "vendor's guide on scheduling GPUs with DRA"
_MEMORY, _WHOLE = names.RESOURCE_GPU_MEMORY, names.RESOURCE_WHOLE_GPU
_CGPU, _CORE = "cgpu-installer", "cgpu-core-installer"
_VIA_DEFAULT = (
    "take the node out of the pool (spec.nodes.exclude)",
    f"once it carries no annotation gpushare.io/applied, run: {TO_DEFAULT}",
    "add it to the pool again",
)
"""Manual steps for one node; docs/transitions.md explains each."""


def _mode(schedule: Schedule, resource: str, plugin: str, *components: str, **more: Any) -> Mode:
    labels = {names.LABEL_SCHEDULE: str(schedule)}
    return Mode(Edition.PROFESSIONAL, schedule, labels, resource, plugin, components, **more)


PROFESSIONAL = EditionDescription(
    edition=Edition.PROFESSIONAL,
    switch=names.LABEL_SCHEDULE,
    find_schedule=lambda labels: labels.get(names.LABEL_SCHEDULE, Schedule.DEFAULT),
    modes=(
        _mode(
            Schedule.DEFAULT,
            _WHOLE,
            "ack-nvidia-device-plugin",
            recoverer="nvidia-device-plugin-recover",
        ),
        _mode(Schedule.SHARE, _MEMORY, GPUSHARE_PLUGIN, reads_label=True, keeps_isolation=True),
        _mode(Schedule.CGPU, _MEMORY, GPUSHARE_PLUGIN, _CGPU, reads_label=True, isolated=True),
        _mode(
            Schedule.CORE_MEM,
            _MEMORY,
            "gpushare-core-device-plugin-ds",
            _CORE,
            companions=(names.RESOURCE_GPU_CORE,),
            isolated=True,
        ),
        _mode(Schedule.MPS, _MEMORY, "gpushare-mps-device-plugin-ds", "ack-mps-control"),
        _mode(Schedule.TOPOLOGY, names.RESOURCE_TOPOLOGY_GPU, "gputopo-device-plugin-ds"),
        _mode(Schedule.DISABLED, "", ""),
    ),
    needs={
        "follow": Transition(
            Outcome.APPLY, "The DaemonSets of both modes select on the mode label", LABELS_PAGE
        ),
        "mps": Transition(
            Outcome.APPLY,
            "The mode label starts the MPS daemon and the plugin beside it",
            "vendor's page on ack-mps-control",
        ),
        "hand-over": Transition(
            Outcome.APPLY,
            "The vendor's plugin leaves the node; another one serves its cards",
            _DRA_GUIDE,
        ),
        "reset": Transition(
            Outcome.APPLY,
            "The label value default switches the former mode off; deleting the label does not",
            "vendor's pages on enabling GPU scheduling and on topology-aware scheduling",
        ),
        "module-stays": Transition(
            Outcome.APPLY, "The cGPU kernel module stays loaded", LABELS_PAGE
        ),
        "isolate": Transition(
            Outcome.APPLY_AND_RESTART,
            "One plugin serves both modes and enables memory isolation for the node",
            TEARDOWN.source,
        ),
        "teardown": TEARDOWN,
        "two-steps": Transition(
            Outcome.REQUIRES_MANUAL_ACTION,
            "The vendor does not list this change. Go through mode default",
            LABELS_PAGE,
            steps=("end or move this node's GPU pods", *_VIA_DEFAULT),
        ),
        "rejoin": Transition(
            Outcome.REQUIRES_MANUAL_ACTION,
            "The vendor does not list this change, and the cGPU kernel module would stay loaded",
            LABELS_PAGE,
            steps=(
                "drain the node",
                "remove it from the cluster",
                "add it again with a new system disk and the new label",
            ),
        ),
        "foreign": Transition(
            Outcome.REQUIRES_MANUAL_ACTION,
            "Another plugin or a DRA driver may have allocated cards unseen by the new mode",
            _DRA_GUIDE,
            steps=(
                "end the pods that use the node's cards",
                "remove that plugin or driver from the node",
                *_VIA_DEFAULT,
            ),
        ),
    },
    matrix="""
        of        default       share      cgpu       core_mem   mps        topology      disabled
        default   -             follow     follow     follow     mps        follow        hand-over
        share     reset         -          isolate    two-steps  two-steps  two-steps     two-steps
        cgpu      module-stays  teardown   -          rejoin     rejoin     module-stays  rejoin
        core_mem  module-stays  teardown   rejoin     -          rejoin     module-stays  rejoin
        mps       reset         two-steps  two-steps  two-steps  -          two-steps     two-steps
        topology  reset         two-steps  two-steps  two-steps  two-steps  -             two-steps
        disabled  foreign       foreign    foreign    foreign    foreign    foreign       -
    """,
    installers=frozenset({_CGPU, _CORE}),
    installed_by="chart ack-ai-installer; for mps also ack-mps-control",
    has_scheduler_extender=False,
    card_annotation=names.ANNOTATION_ALLOCATION,
)
