"""Manifests from `templates/`: sandboxed and strict, user values only as JSON."""

import json
import shlex
from typing import Any

from jinja2 import PackageLoader, StrictUndefined
from jinja2.sandbox import SandboxedEnvironment

_LOADER = PackageLoader("gpushare")


def render(template: str, **values: Any) -> str:
    """Render `template` with `values`.

    Templates insert values with `tojson` only, or in shell commands with `quote`, so that no value
    can break out of its place. Raises jinja2's UndefinedError where a value is missing.
    """
    return _ENVIRONMENT.get_template(template).render(**values)


def read_template(name: str) -> str:
    """Read a file of `templates/` without rendering it."""
    source, _, _ = _LOADER.get_source(_ENVIRONMENT, name)
    return source


def _dump(value: Any, **options: Any) -> str:
    """Dump JSON that is also YAML, which allows neither surrogate pairs nor every character."""
    text = json.dumps(value, ensure_ascii=False, **options)
    return "".join(c if " " <= c <= "~" else f"\\U{ord(c):08x}" for c in text)


_ENVIRONMENT = SandboxedEnvironment(
    loader=_LOADER,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
_ENVIRONMENT.policies["json.dumps_function"] = _dump
_ENVIRONMENT.filters["quote"] = shlex.quote
