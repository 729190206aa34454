"""Checks names, label keys and images as they are typed: invalid ones are refused at once.

Each raises `BadParameter`, and returns what it was given, as a parameter's callback does. What a
path or a query is made of holds nothing then that ends it.
"""

import re

import typer

_MOST = 253


def check_name(name: str) -> str:
    """Check the name of a node, pool or pod; empty where none is given.

    Capitals are accepted, although no name has them: the right name is proposed then.
    """
    from gpushare.api.selector import DNS_NAME

    if name and not (len(name) <= _MOST and re.fullmatch(DNS_NAME, name, re.ASCII | re.IGNORECASE)):
        raise _refuse(name, "a name: lower-case letters, digits, '-' and '.' are expected")
    return name


def check_kind_and_name(name: str) -> str:
    """Check a name, perhaps after a kind and a slash."""
    kind, slash, rest = name.rpartition("/")
    if slash and not (kind and rest):
        raise _refuse(name, "a name: pool/NAME, node/NAME or NAME is expected")
    check_name(rest)
    return name


def check_namespace_name(name: str | None) -> str | None:
    """Check the name of a namespace; None where none is given."""
    from gpushare.api.selector import DNS_LABEL

    if name is None:
        return None
    if not (len(name) <= 63 and re.fullmatch(DNS_LABEL, name, re.ASCII | re.IGNORECASE)):
        raise _refuse(name, "a namespace: lower-case letters, digits and '-' are expected")
    return name


def check_label_key(key: str) -> str:
    """Check the key of a label."""
    from gpushare.api.selector import LABEL_KEY

    if not (re.fullmatch(LABEL_KEY, key) and key.find("/") <= _MOST):
        raise _refuse(key, "the key of a label, such as example.com/node-pool")
    return key


def check_image(image: str) -> str:
    """Check the reference of an image."""
    if re.search(r"\s", image):
        raise _refuse(image, "an image")
    return image


def _refuse(given: str, wanted: str) -> typer.BadParameter:
    return typer.BadParameter(f"{given!r} is not {wanted}")
