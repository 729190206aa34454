"""How much of the package `kubernetes` a command imports."""

import subprocess
import sys

import pytest

_ALONE = """
import sys
from gpushare.kube.auth.kubeconfig import import_reader
assert import_reader().KubeConfigLoader
assert "kubernetes.client" not in sys.modules and "kubernetes.aio.client.models" not in sys.modules
import kubernetes.aio.config
assert kubernetes.aio.config.kube_config.ApiClient.__init__.__code__.co_argcount > 1
assert kubernetes.client.V1Node
"""
_WHOLE = """
import sys
from gpushare.kube.auth import kubeconfig
def fail(root):
    raise TypeError(root)
kubeconfig._import_alone = fail
assert kubeconfig.import_reader().KubeConfigLoader
assert "kubernetes.client" in sys.modules
"""
_AFTER = """
import kubernetes.aio.config
from gpushare.kube.auth.kubeconfig import import_reader
assert import_reader() is kubernetes.aio.config.kube_config
"""


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(_ALONE, id="what reads a kubeconfig, and the rest can still be imported"),
        pytest.param(_WHOLE, id="all of a release that is laid out otherwise"),
        pytest.param(_AFTER, id="nothing where it is imported already"),
    ],
)
def test_of_kubernetes_is_imported(program: str) -> None:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
