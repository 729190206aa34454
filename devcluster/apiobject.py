"""The type of an unparsed object of the Kubernetes API."""

from typing import Any

Object = dict[str, Any]
