"""The configuration that wires the extender into kube-scheduler, and what it refuses."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gpushare.render.opensource import render_scheduler_config


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("", "is no URL"),
        ("127.0.0.1:32766", "is no URL"),
        ("ftp://x", "is no URL"),
        ("https://x", "is no URL"),
        ("http://", "is no URL"),
        ("http://x:99999999", "is no URL"),
        ("http://x/\n", "is no URL"),
        ("http://[x", "is no URL"),
        ("http://a:b@x", "more than a host"),
        ("http://x/?a=b", "more than a host"),
    ],
)
def test_what_kube_scheduler_would_refuse_or_misread_is_refused(url: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        render_scheduler_config(url)


@given(st.text(min_size=1))
def test_no_file_name_breaks_out_of_its_place(name: str) -> None:
    found = yaml.safe_load(render_scheduler_config("http://x", name))
    assert found["clientConnection"] == {"kubeconfig": name}
