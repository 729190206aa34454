"""Plays GPU nodes without a GPU: device plugin, kubelet of GPU pods, card-level scheduler.

The simulator reads only the API server's objects, like the parts that it plays, and knows nothing
of the operator. `node.play` decides, one node at a time and without I/O; `player`, `cluster_state`
and `extender` connect it to a cluster.
"""
