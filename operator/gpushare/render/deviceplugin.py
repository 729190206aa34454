"""The device plugin of open-source gpushare, as today's clusters take it."""

from gpushare import names
from gpushare.editions.edition import GPUSHARE_PLUGIN
from gpushare.render import render

_LABELS = {"name": GPUSHARE_PLUGIN, "component": "gpushare-device-plugin", "app": "gpushare"}
"""As its installations have them: people and tools find its pods by these."""


def render_device_plugin(
    image: str, *, namespace: str = names.PLUGIN_NAMESPACE, memory_unit: str = "GiB"
) -> str:
    """Its account, rights and DaemonSet, under the name by which the operator knows it, on the
    nodes on which pools switch sharing on.

    What it runs as, and with which rights: its repository's device-plugin-ds.yaml, and the chart
    gpushare-installer, which gives no rights to kubelets.
    """
    return render(
        "gpushare-device-plugin.yaml.j2",
        name=GPUSHARE_PLUGIN,
        namespace=namespace,
        labels=_LABELS,
        image=image,
        memory_unit=memory_unit,
        node_selector={names.LABEL_GPUSHARE: "true"},
    )
