"""The device plugin of open-source gpushare, as today's clusters take it."""

import re
from collections.abc import Mapping

from gpushare import names
from gpushare.editions.edition import GPUSHARE_PLUGIN
from gpushare.render import render

NODE_SELECTOR: Mapping[str, str] = {names.LABEL_GPUSHARE: "true"}
"""By this label pools of the OpenSource edition switch sharing on."""
_LABELS = {"name": GPUSHARE_PLUGIN, "component": "gpushare-device-plugin", "app": "gpushare"}
"""As its installations have them: people and tools find its pods by these."""
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_NAME = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_SELECTOR = re.compile(rf"(?P<key>([a-z0-9][-a-z0-9.]{{0,251}}/)?{_NAME})=(?P<value>({_NAME})?)")


def parse_node_selector(terms: list[str]) -> dict[str, str]:
    """Labels that are written KEY=VALUE. Raises `ValueError` for what is none."""
    selector: dict[str, str] = {}
    for term in terms:
        found = _SELECTOR.fullmatch(term)
        if found is None:
            raise ValueError(f"{term} is no label: KEY=VALUE is expected")
        if found["key"] in selector:
            raise ValueError(f"label {found['key']} is named twice")
        selector[found["key"]] = found["value"]
    return selector


def check_image(image: str) -> None:
    """Raise `ValueError` for what names no image."""
    if not image or re.search(r"\s", image):
        raise ValueError(f"{image!r} is no image")


def render_device_plugin(
    image: str,
    *,
    namespace: str = names.PLUGIN_NAMESPACE,
    memory_unit: str = "GiB",
    node_selector: Mapping[str, str] = NODE_SELECTOR,
) -> str:
    """Its account, rights and DaemonSet, under the name by which the operator knows it.

    What it runs as, and with which rights: its repository's device-plugin-ds.yaml, and the chart
    gpushare-installer, which gives no rights to kubelets. Raises `ValueError`.
    """
    if memory_unit not in ("GiB", "MiB"):
        raise ValueError(f"{memory_unit!r} is no unit that the plugin knows: GiB or MiB")
    check_image(image)
    if not _NAMESPACE.fullmatch(namespace):
        raise ValueError(f"{namespace!r} is no name of a namespace")
    return render(
        "gpushare-device-plugin.yaml.j2",
        name=GPUSHARE_PLUGIN,
        namespace=namespace,
        labels=_LABELS,
        image=image,
        memory_unit=memory_unit,
        node_selector=dict(node_selector or NODE_SELECTOR),
    )
