"""kube-scheduler's configuration, with the gpushare scheduler extender wired in."""

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from gpushare import names
from gpushare.render import render

EXTENDER_PATH = "/gpushare-scheduler"
"""Under which open-source gpushare-scheduler-extender serves its verbs."""


@dataclass(frozen=True, slots=True)
class ExtenderTLS:
    """How kube-scheduler knows the extender, and is known to it; files of its own machine."""

    ca_file: str = ""
    certificate_file: str = ""
    key_file: str = ""
    server_name: str = ""
    """In the extender's certificate, where that is not the host of its URL."""
    insecure: bool = False
    """Whatever certificate it has is taken."""


def render_scheduler_config(
    extender_url: str, tls: ExtenderTLS, *, kubeconfig: str | None = None
) -> str:
    """The file for kube-scheduler's --config; `kubeconfig` is the scheduler's own.

    Raises `ValueError` for what kube-scheduler would refuse, or would take without saying what it
    leaves out.
    """
    scheme, url = _parse_url(extender_url)
    return render(
        "kube-scheduler-config.yaml.j2",
        url=url,
        https=scheme == "https",
        tls=_build_tls(tls, scheme, url),
        kubeconfig=kubeconfig,
        resource=names.RESOURCE_GPU_MEMORY,
    )


def _parse_url(text: str) -> tuple[str, str]:
    """Its scheme, and the URL with the extender's own path where it has none."""
    try:
        url = urlsplit(text)
        has_place = bool(url.hostname) and url.port != 0
    except ValueError:
        has_place = False
    if not has_place or url.scheme not in ("http", "https") or re.search(r"[\s\x00-\x1f]", text):
        raise ValueError(f"{text} is no URL of an extender: http(s)://HOST:PORT/PATH is expected")
    if url.query or url.fragment or url.username is not None:
        raise ValueError(
            f"{text} has more than a host, a port and a path: kube-scheduler adds to it"
        )
    path = url.path.rstrip("/") or EXTENDER_PATH
    return url.scheme, f"{url.scheme}://{url.netloc}{path}"


def _build_tls(tls: ExtenderTLS, scheme: str, url: str) -> dict[str, str | bool]:
    """As `tlsConfig` of the extender has it.

    Without a CA kube-scheduler takes any certificate, and says nothing of it (its
    pkg/scheduler/extender.go): that must be asked for.
    """
    if scheme == "http":
        if tls != ExtenderTLS():
            raise ValueError(f"{url} is called without TLS: leave its options, or say https")
        return {}
    if bool(tls.ca_file) is tls.insecure:
        raise ValueError(
            f"{url} needs the CA of its certificate (--tls-ca), or --tls-insecure to take any; one "
            "of them"
        )
    if bool(tls.certificate_file) is not bool(tls.key_file):
        raise ValueError(
            "a certificate for kube-scheduler needs its key, and a key its certificate"
        )
    fields: dict[str, str | bool] = {
        "insecure": tls.insecure,
        "serverName": tls.server_name,
        "caFile": tls.ca_file,
        "certFile": tls.certificate_file,
        "keyFile": tls.key_file,
    }
    return {key: value for key, value in fields.items() if value}
