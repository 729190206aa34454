"""Maps the addresses in pods' status to the loopback addresses at which the pods listen.

EndpointSlices allow no loopback address, so pods have another one in the cluster.
"""

import ipaddress

_CLUSTER, _MACHINE = "10.", "127."


def pod_address(first_port: int, number: int) -> str:
    """Return the address in the status of the `number`th pod of a cluster with this first port.

    Nothing listens there: connections go to :func:`reach` of it. Clusters of a machine share no
    address, as they share no port; there are 5,000 of each.
    """
    return str(ipaddress.ip_address(f"{_CLUSTER}0.0.0") + first_port * 256 + number)


def reach(address: str) -> str:
    """Return the loopback address at which a pod with this address listens."""
    return address.replace(_CLUSTER, _MACHINE, 1)
