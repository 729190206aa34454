"""What of `kubernetes` reads kubeconfigs, imported without the rest.

Its packages import all of their 1,400 modules: a third of a second of every command.
"""

import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

_PACKAGES = ("kubernetes", "kubernetes.aio", "kubernetes.aio.client")


def import_kube_config() -> Any:
    """The module `kubernetes.aio.config.kube_config`.

    Raises `ModuleNotFoundError` where the package is not installed.
    """
    found = find_spec("kubernetes")
    if found is None or not found.submodule_search_locations:
        raise ModuleNotFoundError("there is no package kubernetes")
    if sys.modules.keys().isdisjoint(_PACKAGES):
        try:
            _pretend(found.submodule_search_locations[0])
            return import_module("kubernetes.aio.config.kube_config")
        except (AttributeError, ImportError):
            # A release that is laid out otherwise takes longer.
            pass
        finally:
            for name in _PACKAGES:
                sys.modules.pop(name, None)
    return import_module("kubernetes.aio.config.kube_config")


def _pretend(root: str) -> None:
    """Packages whose modules are found, and which import none themselves."""
    for name in _PACKAGES:
        package = sys.modules[name] = ModuleType(name)
        package.__path__ = [root + name.removeprefix("kubernetes").replace(".", "/")]
    client: Any = sys.modules["kubernetes.aio.client"]
    client.Configuration = import_module("kubernetes.aio.client.configuration").Configuration
    # Made where one asks for a client, which nobody does.
    client.ApiClient = None
