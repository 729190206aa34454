"""Addresses of pods: what their status says, and where on this machine they really listen.

A Service's EndpointSlices take no loopback address, so the cluster has another one of each.
"""

import ipaddress

_CLUSTER, _MACHINE = "10.", "127."


def pod_address(first_port: int, number: int) -> str:
    """The address of the `number`th pod of the cluster whose block of ports begins there.

    By name only: nothing routes it, or to somebody else; what is called is :func:`reach` of it.

    No two clusters of a machine share one, as none share a port; there are 5,000 of each.
    """
    return str(ipaddress.ip_address(f"{_CLUSTER}0.0.0") + first_port * 256 + number)


def reach(address: str) -> str:
    """Where a pod with this address listens: all of 127.0.0.0/8 is this machine."""
    return address.replace(_CLUSTER, _MACHINE, 1)
