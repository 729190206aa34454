"""Plays GPU nodes without a GPU: device plugin, kubelet of GPU pods, card-level scheduler.

It sees only what the API server's objects say, like the parts that it stands for, and knows
nothing of the operator. `node.play` decides, one node at a time and without I/O; `player`,
`cluster` and `extender` connect it to a cluster.
"""
