"""Tells whether a node's system disk was replaced since the cGPU module was recorded on it.

A replaced disk keeps the node's name, and may keep its Node object, labels and annotations; the
module is gone. This is proven only by both at once:

- another `machineID`: it is written to the system disk when the system first starts from it;
- another `kernelVersion`: a running kernel is not exchanged without a reboot, and the module's
  files are built for one kernel, so the old ones could not be loaded into this one.

Neither proves it alone: a `machineID` can be written anew by hand, and a kernel is upgraded in
place. `bootID`, `osImage` and `systemUUID` prove nothing: a reboot, an upgrade of a package, or
nothing at all changes them. Besides, the mode label and the note must still be ours: a label that
somebody wrote meanwhile may have brought an installer to the new disk. In doubt the module stays
noted.
"""

import json

import orjson

from gpushare import names
from gpushare.api.k8s.node import Node

_KEYS = (names.LABEL_SCHEDULE, names.ANNOTATION_MODULE)


def describe_disk(node: Node) -> str:
    """Describe in `gpushare.io/module` on which system disk and kernel the module may be loaded.

    Where the kubelet does not report them, the value stays.
    """
    if not (node.machine_id and node.kernel_version):
        return node.annotations.get(names.ANNOTATION_MODULE, names.MODULE_LOADED)
    disk = {"v": 1, "machineID": node.machine_id, "kernelVersion": node.kernel_version}
    return json.dumps(disk, separators=(",", ":"))


def is_disk_replaced(node: Node) -> bool:
    """Tell whether the disk on which the module was recorded has provably been replaced."""
    try:
        noted = orjson.loads(node.annotations.get(names.ANNOTATION_MODULE, ""))
        version, machine, kernel = (noted[key] for key in ("v", "machineID", "kernelVersion"))
    except (ValueError, TypeError, KeyError):
        return False
    pairs = ((machine, node.machine_id), (kernel, node.kernel_version))
    differs = all(then and now and then != now for then, now in pairs)
    return version == 1 and differs and node.owned.issuperset(_KEYS)
