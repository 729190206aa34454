"""An object of the Kubernetes API as it is told, before anybody takes from it what matters."""

from typing import Any

Object = dict[str, Any]
