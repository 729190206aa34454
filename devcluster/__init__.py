"""A real Kubernetes control plane for one machine, with simulated GPU nodes.

``python -m devcluster up`` starts it; tests use :class:`devcluster.cluster.Cluster`. It
imports nothing of ``gpushare``, nor ``gpushare`` of it: the simulation can disagree with the
operator.
"""
