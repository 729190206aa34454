"""The configuration that wires the extender into kube-scheduler, and what it refuses."""

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gpushare.cli.exits import Exit
from gpushare.render.scheduler import Extender, ExtenderTLS, render_scheduler_config
from tests.kit.commandline import expect_told, run_command

URL = "http://127.0.0.1:32766"


def parse(extender: Extender, **options: Any) -> Any:
    return yaml.safe_load(render_scheduler_config(extender, **options))


def test_it_is_the_guides_wiring_in_todays_version() -> None:
    assert parse(Extender(URL), kubeconfig="/etc/kubernetes/scheduler.conf") == {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": "/etc/kubernetes/scheduler.conf"},
        "extenders": [
            {
                "urlPrefix": "http://127.0.0.1:32766/gpushare-scheduler",
                "filterVerb": "filter",
                "bindVerb": "bind",
                "enableHTTPS": False,
                "nodeCacheCapable": True,
                "managedResources": [{"name": "aliyun.com/gpu-mem", "ignoredByScheduler": False}],
                "ignorable": False,
            }
        ],
    }


def test_a_path_of_ones_own_stays() -> None:
    (extender,) = parse(Extender(f"{URL}/mine/"))["extenders"]
    assert extender["urlPrefix"] == f"{URL}/mine"


def test_several_resources_and_whole_nodes() -> None:
    resources = ("aliyun.com/gpu-mem", "aliyun.com/gpu-core.percentage")
    (extender,) = parse(Extender(URL, resources, node_cache_capable=False))["extenders"]
    assert [each["name"] for each in extender["managedResources"]] == list(resources)
    assert extender["nodeCacheCapable"] is False


def test_tls_with_all_that_it_takes() -> None:
    tls = ExtenderTLS("/ca", "/crt", "/key", "extender.local")
    (extender,) = parse(Extender("https://10.0.0.1", tls=tls))["extenders"]
    assert extender["enableHTTPS"] is True
    assert extender["tlsConfig"] == {
        "caFile": "/ca", "certFile": "/crt", "keyFile": "/key", "serverName": "extender.local",
    }  # fmt: skip


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


def test_a_mistake_is_told_in_a_sentence() -> None:
    ended = run_command("render", "scheduler-config", "--extender-url", "https://x")
    expect_told(ended, Exit.USAGE, "--tls-ca")
