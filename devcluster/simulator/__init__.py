"""Plays what a machine without GPUs cannot: device plugin, kubelet, card-level scheduler.

It sees only what the API server's objects say, like the parts that it stands for, and knows
nothing of the operator. `node.play` decides, one node at a time and without I/O; `player`,
`world` and `extender` connect it to a cluster.
"""
