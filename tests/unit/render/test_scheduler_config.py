"""The configuration that wires the extender into kube-scheduler, and what it refuses."""

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gpushare.render.scheduler import Extender, ExtenderTLS, render_scheduler_config

URL = "http://127.0.0.1:32766"


def parse(extender: Extender, **options: Any) -> Any:
    return yaml.safe_load(render_scheduler_config(extender, **options))


@pytest.mark.parametrize(
    ("extender", "told"),
    [
        (Extender(""), "is no URL"),
        (Extender("127.0.0.1:32766"), "is no URL"),
        (Extender("ftp://x"), "is no URL"),
        (Extender("http://"), "is no URL"),
        (Extender("http://x:99999999"), "is no URL"),
        (Extender("http://x/\n"), "is no URL"),
        (Extender("http://[x"), "is no URL"),
        (Extender("http://a:b@x"), "more than a host"),
        (Extender("http://x/?a=b"), "more than a host"),
        (Extender(URL, ()), "asked about every pod"),
        (Extender(URL, ("gpu-mem",)), "gpu-mem is no extended resource"),
        (Extender(URL, ("a.com/b", "a.com/b")), "named twice"),
        (Extender(URL, tls=ExtenderTLS(insecure=True)), "called without TLS"),
        (Extender("https://x"), "needs the CA"),
        (Extender("https://x", tls=ExtenderTLS("/ca", insecure=True)), "needs the CA"),
        (Extender("https://x", tls=ExtenderTLS("/ca", "/crt")), "needs its key"),
    ],
)
def test_what_kube_scheduler_would_refuse_or_misread_is_refused(
    extender: Extender, told: str
) -> None:
    with pytest.raises(ValueError, match=told):
        render_scheduler_config(extender)


@given(st.text(min_size=1))
def test_no_file_name_breaks_out_of_its_place(name: str) -> None:
    tls = ExtenderTLS(ca_file=name)
    found = parse(Extender("https://x", tls=tls), kubeconfig=name)
    assert found["clientConnection"] == {"kubeconfig": name}
    (extender,) = found["extenders"]
    assert extender["tlsConfig"] == {"caFile": name}
