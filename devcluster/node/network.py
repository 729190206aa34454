"""Connects nodes by a bridge in the first node's network.

The machine's own network is not changed.
"""

from collections.abc import Sequence

from devcluster.node.namespaces import Namespaces, run_command

PODS = "10.98.0.0/16"
"""The addresses of all pods."""
_BRIDGE = "nodes"


def node_address(index: int) -> str:
    """Return the address of the node at `index`; the network of node 0 has the API server."""
    return f"10.99.0.{index + 1}"


def pod_subnet(index: int) -> str:
    """Return the addresses of the pods of the node at `index`."""
    return f"10.98.{index}.0/24"


def connect(nodes: Sequence[Namespaces]) -> None:
    """Connect the last of `nodes` to the others."""
    *others, node = nodes
    index = len(others)
    address = f"{node_address(index)}/24"
    if not others:
        _ip(node, "link", "add", _BRIDGE, "type", "bridge")
        _ip(node, "address", "add", address, "dev", _BRIDGE)
        _ip(node, "link", "set", _BRIDGE, "up")
        # The API server and kube-proxy look for one to learn their own address.
        _ip(node, "route", "add", "default", "dev", _BRIDGE)
        return
    port = f"{_BRIDGE}-{index}"
    peer = ("type", "veth", "peer", "name", "eth0", "netns", str(node.init_pid))
    _ip(others[0], "link", "add", port, *peer)
    _ip(others[0], "link", "set", port, "master", _BRIDGE, "up")
    _ip(node, "address", "add", address, "dev", "eth0")
    _ip(node, "link", "set", "eth0", "up")
    _ip(node, "route", "add", "default", "via", node_address(0))
    for place, other in enumerate(others):
        _ip(node, "route", "add", pod_subnet(place), "via", node_address(place))
        _ip(other, "route", "add", pod_subnet(index), "via", node_address(index))


def _ip(node: Namespaces, *arguments: str) -> None:
    run_command(node.enter_network("ip", *arguments))
