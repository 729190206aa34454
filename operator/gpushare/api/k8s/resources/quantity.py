"""Parses quantities as the API server does ("Quantity" in the Kubernetes API reference)."""

import re
from decimal import Decimal

MAX_QUANTITY = 2**40
"""Limit of a parsed quantity, so that sums of many fit into 64 bits."""
_SCALES = {"": Decimal(1)}
_SCALES |= {suffix: Decimal(1000) ** power for power, suffix in enumerate("kMGTPE", start=1)}
_SCALES |= {f"{suffix}i": Decimal(1024) ** power for power, suffix in enumerate("KMGTPE", start=1)}
_SCALES |= {suffix: Decimal(1000) ** -power for power, suffix in enumerate("mun", start=1)}
_QUANTITY = re.compile(
    r"([+-]?(?:\d{1,99}\.?\d{0,99}|\.\d{1,99}))(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?\d{1,2}))?",
    re.ASCII,
)
_MOST_DIGITS = 19


def parse_exactly(quantity: object) -> Decimal | None:
    """Parse a quantity, also a fraction or a negative one; None for an invalid one."""
    match = _QUANTITY.fullmatch(str(quantity))
    if match is None:
        return None
    number, suffix, exponent = match.groups()
    return Decimal(number) * (Decimal(10) ** int(exponent or 0)) * _SCALES[suffix or ""]


def is_count(amount: Decimal) -> bool:
    """Tell whether an extended resource may have this amount."""
    return amount >= 0 and amount == amount.to_integral_value()


def parse_quantity(quantity: object) -> int | None:
    """Parse an extended resource's quantity, capped at `MAX_QUANTITY`; None for an invalid one."""
    text = str(quantity)
    if text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS:
        # The usual case, without the cost of a match.
        return min(int(text), MAX_QUANTITY)
    amount = parse_exactly(text)
    return (
        None if amount is None or not is_count(amount) else int(min(amount, Decimal(MAX_QUANTITY)))
    )
