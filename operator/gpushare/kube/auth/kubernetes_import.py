"""Imports the part of `kubernetes` that reads kubeconfigs, without the rest.

Its packages import all of their 1,400 modules: a third of a second of every command.
"""

import logging
import sys
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

log = logging.getLogger(__name__)

_PACKAGES = ("kubernetes", "kubernetes.aio", "kubernetes.aio.client")


@cache
def import_kube_config() -> Any:
    """Import the module `kubernetes.aio.config.kube_config`.

    Raises `ModuleNotFoundError` where the package is not installed.
    """
    found = find_spec("kubernetes")
    if found is None or not found.submodule_search_locations:
        raise ModuleNotFoundError("package kubernetes is not installed")
    before = set(sys.modules)
    if before.isdisjoint(_PACKAGES):
        try:
            _pretend(found.submodule_search_locations[0])
            return import_module("kubernetes.aio.config.kube_config")
        except Exception:
            # A release that is laid out otherwise takes longer.
            log.debug("the package kubernetes is imported whole", exc_info=True)
        finally:
            # Who imports the package after this gets all of it.
            for name in sys.modules.keys() - before:
                if name.partition(".")[0] == "kubernetes":
                    del sys.modules[name]
    return import_module("kubernetes.aio.config.kube_config")


def _pretend(root: str) -> None:
    """Replace packages by empty ones, whose modules are found and which import nothing."""
    for name in _PACKAGES:
        package = sys.modules[name] = ModuleType(name)
        package.__path__ = [root + name.removeprefix("kubernetes").replace(".", "/")]
    client: Any = sys.modules["kubernetes.aio.client"]
    client.Configuration = import_module("kubernetes.aio.client.configuration").Configuration
    # Only `new_client_from_config` uses it, and that is never called.
    client.ApiClient = type("ApiClient", (), {})
