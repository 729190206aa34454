"""Escapes characters that are no text, which a name or a message of a cluster may hold."""

import re

CONTROLS = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Characters that a terminal obeys, or that change the visual order of text (Unicode Technical
Report 36, "Bidirectional Text Spoofing"); and halves of characters."""


def escape_controls(text: str, *, but: str = "") -> str:
    """Escape controls in `text`, also those of writing direction, as `\\xNN` and `\\uNNNN`.

    Those in `but` stay.
    """
    return CONTROLS.sub(lambda found: found[0] if found[0] in but else _escape(found[0]), text)


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
