"""The scheduler extender of open-source gpushare, as today's clusters take it."""

from gpushare import names
from gpushare.render import render

PORT = 12345
_LABELS = {"app": "gpushare", "component": names.EXTENDER}
"""As its installations have them: with another selector the Deployment could not be replaced."""


def render_scheduler_extender(image: str, *, node_port: int | None = None) -> str:
    """Its account, rights, Deployment and Service, under the names of its own manifests.

    Unlike those it runs on the control plane of current clusters, outside the node's network, and
    is reached from within the cluster only, unless `node_port` opens a port on every node.
    """
    return render(
        "gpushare-scheduler-extender.yaml.j2",
        name=names.EXTENDER,
        namespace=names.EXTENDER_NAMESPACE,
        labels=_LABELS,
        image=image,
        port=PORT,
        node_port=node_port,
    )
