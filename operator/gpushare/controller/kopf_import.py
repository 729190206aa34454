"""Kopf, imported without what it would log in by.

Where `kubernetes` is installed Kopf imports all of it: a start takes half as long again, and 10 MiB
more. We log in by a session of our own.
"""

import sys
from types import ModuleType
from typing import cast

__all__ = ["kopf"]

_was_there = "kubernetes" in sys.modules
if not _was_there:
    # So that an import of it fails, as where it is not installed.
    sys.modules["kubernetes"] = cast(ModuleType, None)
import kopf  # noqa: E402

if not _was_there:
    del sys.modules["kubernetes"]
