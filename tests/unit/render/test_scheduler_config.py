"""The configuration that wires the extender into kube-scheduler, and what it refuses."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gpushare.render.scheduler import ExtenderTLS, render_scheduler_config

URL = "http://127.0.0.1:32766"


@pytest.mark.parametrize(
    ("url", "tls", "told"),
    [
        ("", ExtenderTLS(), "is no URL"),
        ("127.0.0.1:32766", ExtenderTLS(), "is no URL"),
        ("ftp://x", ExtenderTLS(), "is no URL"),
        ("http://", ExtenderTLS(), "is no URL"),
        ("http://x:99999999", ExtenderTLS(), "is no URL"),
        ("http://x/\n", ExtenderTLS(), "is no URL"),
        ("http://[x", ExtenderTLS(), "is no URL"),
        ("http://a:b@x", ExtenderTLS(), "more than a host"),
        ("http://x/?a=b", ExtenderTLS(), "more than a host"),
        (URL, ExtenderTLS(insecure=True), "called without TLS"),
        ("https://x", ExtenderTLS(), "needs the CA"),
        ("https://x", ExtenderTLS("/ca", insecure=True), "needs the CA"),
        ("https://x", ExtenderTLS("/ca", "/crt"), "needs its key"),
    ],
)
def test_what_kube_scheduler_would_refuse_or_misread_is_refused(
    url: str, tls: ExtenderTLS, told: str
) -> None:
    with pytest.raises(ValueError, match=told):
        render_scheduler_config(url, tls)


@given(st.text(min_size=1))
def test_no_file_name_breaks_out_of_its_place(name: str) -> None:
    tls = ExtenderTLS(ca_file=name)
    found = yaml.safe_load(render_scheduler_config("https://x", tls, kubeconfig=name))
    assert found["clientConnection"] == {"kubeconfig": name}
    (extender,) = found["extenders"]
    assert extender["tlsConfig"] == {"caFile": name}
