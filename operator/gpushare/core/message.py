"""Cuts messages to what a field of the Kubernetes API, or a header, can hold."""


def cut(text: str, limit: int, sign: str = "") -> str:
    """Cut `text` to at most `limit` bytes of UTF-8, with a `sign` where it was cut."""
    encoded = text.encode(errors="replace")
    if len(encoded) > limit:
        return encoded[: limit - len(sign.encode())].decode(errors="ignore") + sign
    return encoded.decode()
