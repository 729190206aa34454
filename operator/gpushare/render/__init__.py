"""Manifests from `templates/`: sandboxed and strict, user values only as JSON."""

from typing import Any

from jinja2 import PackageLoader, StrictUndefined
from jinja2.sandbox import SandboxedEnvironment


def render(template: str, **values: Any) -> str:
    """The text of `template` with `values`.

    Templates put values in with `tojson` only, so that no value can break out of its place.
    Raises jinja2's UndefinedError where the template needs a value that is not given.
    """
    environment = SandboxedEnvironment(
        loader=PackageLoader("gpushare"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template(template).render(**values)
