"""Manifests from `templates/`: sandboxed and strict, user values only as JSON."""

from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import FileSystemLoader, StrictUndefined
from jinja2.sandbox import SandboxedEnvironment


def templates_folder() -> Path:
    """Where the templates are: beside the package when installed, else in the source tree."""
    installed = Path(str(files("gpushare"))) / "templates"
    return installed if installed.is_dir() else Path(__file__).parents[3] / "templates"


def render(template: str, **values: Any) -> str:
    """The text of `template` with `values`.

    Templates put values in with `tojson` only, so that no value can break out of its place.
    Raises jinja2's UndefinedError where the template needs a value that is not given.
    """
    environment = SandboxedEnvironment(
        loader=FileSystemLoader(templates_folder()),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template(template).render(**values)
