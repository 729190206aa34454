"""The Basic edition: the chart ack-cgpu on dedicated clusters (vendor's guide on node pools)."""

from collections.abc import Mapping

from gpushare import names
from gpushare.api.pool import Edition, Schedule
from gpushare.editions.edition import GPUSHARE_PLUGIN, EditionDescription, Mode, Outcome, Transition

_INSTALLER = "cgpu-installer"


def _find_schedule(labels: Mapping[str, str]) -> str:
    """Find the mode of a node's labels; only "true" in the second label switches isolation off."""
    if labels.get(names.LABEL_CGPU) != "true":
        return Schedule.DEFAULT
    isolated = labels.get(names.LABEL_CGPU_DISABLE_ISOLATION) != "true"
    return Schedule.CGPU if isolated else Schedule.SHARE


BASIC = EditionDescription(
    edition=Edition.BASIC,
    switch=names.LABEL_CGPU,
    find_schedule=_find_schedule,
    modes=(
        # The whole-card plugin is a static pod or an installation of its own. The recover
        # DaemonSet restores its manifest, so cards are awaited.
        Mode(
            Edition.BASIC,
            Schedule.DEFAULT,
            {names.LABEL_CGPU: "false"},
            names.RESOURCE_WHOLE_GPU,
            components=("device-plugin-recover-ds",),
        ),
        *(
            Mode(
                Edition.BASIC,
                schedule,
                {names.LABEL_CGPU: "true", names.LABEL_CGPU_DISABLE_ISOLATION: is_off},
                names.RESOURCE_GPU_MEMORY,
                GPUSHARE_PLUGIN,
                (_INSTALLER,),
                reads_label=True,
                isolated=is_off == "false",
            )
            for schedule, is_off in ((Schedule.SHARE, "true"), (Schedule.CGPU, "false"))
        ),
    ),
    needs={
        "flip": Transition(
            Outcome.APPLY_AND_RESTART,
            "The plugin reads cgpu.disable.isolation when it or the kubelet starts; it holds for "
            "pods admitted afterwards",
            "vendor's guide on node pools, Basic edition",
            keeps_workloads=True,
        ),
        "switch": Transition(
            Outcome.APPLY,
            "The DaemonSets follow the label cgpu; the whole-card plugin is evicted or restored",
            "vendor's page on installing the cGPU component, Basic edition",
        ),
    },
    matrix="""
        of        default       share      cgpu
        default   -             switch     switch
        share     switch        -          flip
        cgpu      switch        flip       -
    """,
    installers=frozenset({_INSTALLER}),
    installed_by="chart ack-cgpu",
    successor=Edition.PROFESSIONAL,
    unisolated=Schedule.SHARE,
    removal="Remove the Basic edition: by the vendor's Job gpushare-migration, which changes "
    "labels too (CHANGE_LABELS_INFO=cgpu=true::ack.node.gpu.schedule=cgpu,gpushare=true::"
    "ack.node.gpu.schedule=share), or by its Helm release.",
    removal_relabels=True,
)
