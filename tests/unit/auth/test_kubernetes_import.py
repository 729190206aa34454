"""How much of the package `kubernetes` a command imports."""

import subprocess
import sys

import pytest

from gpushare.kube.auth import kubernetes_import

_IMPORT = """
import sys
from gpushare.kube.auth.kubernetes_import import import_kube_config
assert import_kube_config().Configuration().verify_ssl
print(sum(name.startswith("kubernetes") for name in sys.modules))
import kubernetes.client
assert kubernetes.client.V1Node
"""


def test_only_what_reads_a_kubeconfig_is_imported_and_the_rest_can_still_be() -> None:
    done = subprocess.run([sys.executable, "-c", _IMPORT], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 20


def test_a_release_that_is_laid_out_otherwise_is_imported_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def pretend(root: str) -> None:
        raise ModuleNotFoundError(root)

    monkeypatch.setattr(kubernetes_import, "_pretend", pretend)
    assert kubernetes_import.import_kube_config().Configuration
