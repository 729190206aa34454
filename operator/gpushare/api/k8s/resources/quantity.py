"""Quantities, as the API server reads them ("Quantity" in the Kubernetes API reference)."""

import re
from decimal import Decimal

MAX_QUANTITY = 2**40
"""Anybody may ask for any number; many of them must have a sum of 64 bits."""
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
    """Parse a quantity, fractions and negative ones included; None for anything else."""
    found = _QUANTITY.fullmatch(str(quantity))
    if found is None:
        return None
    number, suffix, exponent = found.groups()
    return Decimal(number) * (Decimal(10) ** int(exponent or 0)) * _SCALES[suffix or ""]


def is_count(amount: Decimal) -> bool:
    """Tell whether an extended resource may have this amount."""
    return amount >= 0 and amount == amount.to_integral_value()


def parse_quantity(quantity: object) -> int | None:
    """Parse an extended resource's quantity, capped at `MAX_QUANTITY`; None if it is none."""
    text = str(quantity)
    if text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS:
        # As most are, and without what it takes to match.
        return min(int(text), MAX_QUANTITY)
    amount = parse_exactly(text)
    return (
        None if amount is None or not is_count(amount) else int(min(amount, Decimal(MAX_QUANTITY)))
    )
