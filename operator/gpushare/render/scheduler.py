"""kube-scheduler's configuration, with the gpushare scheduler extender wired in."""

import re
from urllib.parse import urlsplit

from gpushare import names
from gpushare.render import render

EXTENDER_PATH = "/gpushare-scheduler"
"""Under which open-source gpushare-scheduler-extender serves its verbs."""


def render_scheduler_config(extender_url: str, kubeconfig: str | None = None) -> str:
    """The file for kube-scheduler's --config; `kubeconfig` is the scheduler's own.

    Raises `ValueError` for what kube-scheduler would refuse, or would take without saying what it
    leaves out.
    """
    return render(
        "kube-scheduler-config.yaml.j2",
        url=_complete_url(extender_url),
        kubeconfig=kubeconfig,
        resource=names.RESOURCE_GPU_MEMORY,
    )


def _complete_url(text: str) -> str:
    """The URL, with the extender's own path where it has none. The extender serves no TLS."""
    try:
        url = urlsplit(text)
        has_place = bool(url.hostname) and url.port != 0
    except ValueError:
        has_place = False
    if not has_place or url.scheme != "http" or re.search(r"[\s\x00-\x1f]", text):
        raise ValueError(f"{text} is no URL of an extender: http://HOST:PORT/PATH is expected")
    if url.query or url.fragment or url.username is not None:
        raise ValueError(
            f"{text} has more than a host, a port and a path: kube-scheduler adds to it"
        )
    return f"http://{url.netloc}{url.path.rstrip('/') or EXTENDER_PATH}"
